// Package delay makes a TCP connection on this machine as slow as one across
// a continent: a proxy that holds every byte back for a fixed time in each
// direction, without reordering and without making the line narrower.
//
// Benchmarks need it, because what costs time on a real build is round trips,
// and loopback has none. Traffic control of the kernel would do the same but
// needs a module that a container's host may not have.
package delay

import "time"

// Link is the line that a proxy pretends to be.
type Link struct {
	// Delay is how long a byte travels in one direction: half a round trip.
	Delay time.Duration
	// BytesPerSecond is what each connection can carry in each direction; 0
	// for no limit.
	BytesPerSecond int64
}

// window answers how many bytes may be under way in one direction before the
// sender has to wait, as on a real line with full buffers.
func (l Link) window() int {
	if l.BytesPerSecond <= 0 {
		// At 10 ms this is more than 6 GB/s, beyond what a proxy copies.
		return 64 << 20
	}
	under := l.BytesPerSecond * int64(2*l.Delay) / int64(time.Second)
	return int(under) + 256<<10
}

// chunk answers how many bytes to take from a connection at once.
func (l Link) chunk() int {
	const most, least = 64 << 10, 1460
	if l.BytesPerSecond <= 0 {
		return most
	}
	// A hundredth of a second's worth, so that a slow line is a steady one.
	return int(min(max(l.BytesPerSecond/100, least), most))
}

// carrying answers how long the line is busy with so many bytes.
func (l Link) carrying(bytes int) time.Duration {
	if l.BytesPerSecond <= 0 {
		return 0
	}
	return time.Duration(float64(bytes) / float64(l.BytesPerSecond) * float64(time.Second))
}

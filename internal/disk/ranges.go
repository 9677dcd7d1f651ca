package disk

import (
	"cmp"
	"slices"
	"sort"
)

// Range is a number of bytes of the disk, from Offset on.
type Range struct{ Offset, Length int64 }

// End is the offset after the last byte.
func (r Range) End() int64 { return r.Offset + r.Length }

// mostRanges limits the memory for a list of ranges to 16 MiB.
const mostRanges = 1 << 20

// ranges is a list of ranges in ascending order that do not touch. When the list
// becomes too long, it drops its shortest ranges, so it suits free space and no
// other use: free space that is taken as used is never wrong.
type ranges struct {
	list []Range
	// least is the length of the shortest ranges that are kept.
	least int64
}

// add appends a range that begins at or after the end of the last one.
func (s *ranges) add(offset, length int64) {
	if length <= 0 {
		return
	}
	if n := len(s.list); n > 0 && s.list[n-1].End() == offset {
		s.list[n-1].Length += length
		return
	}
	s.trim()
	s.list = append(s.list, Range{offset, length})
}

// trim drops the last range if it is too short, and many if the list is too
// long.
func (s *ranges) trim() {
	if n := len(s.list); n > 0 && s.list[n-1].Length < s.least {
		s.list = s.list[:n-1]
	}
	for len(s.list) >= mostRanges {
		s.least = max(2*s.least, 8<<10)
		kept := s.list[:0]
		for _, r := range s.list {
			if r.Length >= s.least {
				kept = append(kept, r)
			}
		}
		s.list = kept
	}
}

// without returns the ranges of s outside the ranges of used, which are in any
// order and may overlap.
func (s *ranges) without(used []Range) *ranges {
	used = merged(used)
	rest := &ranges{}
	for _, r := range s.list {
		from := r.Offset
		for _, u := range within(used, r) {
			rest.add(from, u.Offset-from)
			from = u.End()
		}
		rest.add(from, r.End()-from)
	}
	return rest
}

// merged returns the same bytes in ascending order and without overlaps.
func merged(list []Range) []Range {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Range) int { return cmp.Compare(a.Offset, b.Offset) })
	var all []Range
	for _, r := range list {
		if n := len(all); n > 0 && r.Offset <= all[n-1].End() {
			all[n-1].Length = max(all[n-1].End(), r.End()) - all[n-1].Offset
		} else {
			all = append(all, r)
		}
	}
	return all
}

// extents is a list of ranges in ascending order. When it becomes too long, it
// closes its shortest gaps, so it suits what is read and no other use.
type extents struct {
	list []Range
	// least is the length of the shortest gaps that are kept.
	least int64
}

func (s *extents) add(offset, length int64) {
	if n := len(s.list); n > 0 && offset-s.list[n-1].End() <= s.least {
		s.list[n-1].Length = offset + length - s.list[n-1].Offset
		return
	}
	if len(s.list) >= mostRanges {
		s.least = max(2*s.least, 64<<10)
		all := s.list
		s.list = all[:0]
		for _, r := range all {
			s.add(r.Offset, r.Length)
		}
	}
	s.list = append(s.list, Range{offset, length})
}

// within returns the parts of list that lie in r. The list is in ascending order
// and has no overlaps.
func within(list []Range, r Range) []Range {
	first := sort.Search(len(list), func(i int) bool { return list[i].End() > r.Offset })
	var parts []Range
	for _, part := range list[first:] {
		if part.Offset >= r.End() {
			break
		}
		from := max(part.Offset, r.Offset)
		parts = append(parts, Range{from, min(part.End(), r.End()) - from})
	}
	return parts
}

// total is the sum of the lengths.
func total(list []Range) int64 {
	var sum int64
	for _, r := range list {
		sum += r.Length
	}
	return sum
}

package delay

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// A peer that does not read must hold up the sender, not fill the memory.
func TestQueueHoldsUpTheSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(10)
		assert.True(t, q.push(parcel{data: make([]byte, 10)}))
		pushed := false
		go func() { pushed = q.push(parcel{data: []byte("x")}) }()
		synctest.Wait()
		assert.False(t, pushed, "the window is full")
		one, ok := q.pop()
		assert.True(t, ok)
		synctest.Wait()
		assert.False(t, pushed, "what was taken out has not arrived yet")
		q.arrived(len(one.data))
		synctest.Wait()
		assert.True(t, pushed)
	})
}

func TestQueueCloseEndsAllWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, empty := newQueue(1), newQueue(1)
		full.push(parcel{data: []byte("x")})
		ended := 0
		results := make(chan bool, 2)
		go func() { results <- full.push(parcel{data: []byte("y")}) }()
		go func() { _, ok := empty.pop(); results <- ok }()
		synctest.Wait()
		assert.Empty(t, results)
		full.close()
		empty.close()
		for ok := range results {
			assert.False(t, ok)
			if ended++; ended == 2 {
				break
			}
		}
		_, ok := full.pop()
		assert.False(t, ok, "what was under way is lost")
	})
}

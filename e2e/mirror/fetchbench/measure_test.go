package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestMediansAndRatios(t *testing.T) {
	all := []Cost{{Wall: 3, CPU: 9, Memory: 1}, {Wall: 1, CPU: 7, Memory: 5}, {Wall: 2, CPU: 8, Memory: 3}}
	assert.Equal(t, Cost{Wall: 2, CPU: 8, Memory: 3}, medians(all))
	r := Result{Bytes: 4e8, Serial: Cost{Wall: 10 * time.Second, CPU: 4 * time.Second, Memory: 1 << 20}, Ours: Cost{Wall: time.Second, CPU: 2 * time.Second, Memory: 90 << 20}}
	assert.InDelta(t, 0.1, r.Wall(), 1e-9)
	assert.InDelta(t, 0.5, r.CPU(), 1e-9)
	assert.Equal(t, `400 MB in 9 files; 20ms before each answer, 50 MiB/s a connection
curl, sha256sum, tar   10.00 s wall   4.00 s CPU     1 MiB
eksnode                 1.00 s wall   2.00 s CPU    90 MiB
ratio                  0.100          0.500
`, r.String())
}

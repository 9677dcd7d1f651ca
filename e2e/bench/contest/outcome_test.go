package contest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{4}, 4},
		{[]float64{9, 1, 5}, 5},
		{[]float64{9, 1, 5, 2}, 3.5},
		{[]float64{1, 1, 100}, 1},
	} {
		given := append([]float64(nil), test.values...)
		assert.Equal(t, test.want, Median(test.values), test.values)
		assert.Equal(t, given, test.values, "the values keep their order")
	}
	assert.True(t, math.IsNaN(Median(nil)))
}

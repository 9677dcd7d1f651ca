package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDigits(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1 000", 7938210: "7 938 210", -12345: "-12 345", -123: "-123"} {
		assert.Equal(t, want, digits(n))
	}
}

package machine

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestBindPath(t *testing.T) {
	for path, want := range map[string]string{
		"/a/b":    "/a/b",
		"/a:b":    `/a\:b`,
		`/a\b`:    `/a\\b`,
		`/a\:b`:   `/a\\\:b`,
		"/a b,c'": "/a b,c'",
	} {
		assert.Equal(t, want, bindPath(path))
	}
}

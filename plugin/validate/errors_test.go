package validate

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAllListsEveryError(t *testing.T) {
	one, two, three := errors.New("one"), errors.New("two"), errors.New("three")
	for name, test := range map[string]struct {
		errs []error
		want string
	}{
		"one":                 {[]error{nil, one}, "1 error(s) occurred:\n\n* one"},
		"joined":              {[]error{errors.Join(one, errors.Join(two, three))}, "3 error(s) occurred:\n\n* one\n* two\n* three"},
		"wrapped with a text": {[]error{fmt.Errorf("both: %w and %w", one, two)}, "1 error(s) occurred:\n\n* both: one and two"},
	} {
		t.Run(name, func(t *testing.T) { require.EqualError(t, All(test.errs...), test.want) })
	}
	assert.True(t, All() == nil, "the interface itself must be nil")
	assert.True(t, All(nil, nil) == nil)
}

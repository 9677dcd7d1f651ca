package surface

import (
	"slices"
	"strings"
)

// WithRequests adds the IDs of the requests that AWS refused to an error. AWS support
// needs them.
func WithRequests(err error) error {
	ids := requestsIn(err)
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) == 0 {
		return err
	}
	return Errorf("%w\nAWS request ID: %s", err, strings.Join(ids, ", "))
}

func requestsIn(err error) (ids []string) {
	if e, ok := err.(interface{ RequestID() string }); ok && e.RequestID() != "" {
		return []string{e.RequestID()}
	}
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			ids = append(ids, requestsIn(one)...)
		}
	case interface{ Unwrap() error }:
		return requestsIn(e.Unwrap())
	}
	return ids
}

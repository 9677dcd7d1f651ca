package surface

import (
	"slices"
	"strings"
)

// WithRequests adds the IDs of the requests that AWS refused to the first line of an error's
// text. AWS support needs them.
func WithRequests(text string, err error) string {
	ids := requestsIn(err)
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) == 0 {
		return text
	}
	first, rest, more := strings.Cut(text, "\n")
	if more {
		rest = "\n" + rest
	}
	return first + " (AWS request ID: " + strings.Join(ids, ", ") + ")" + rest
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

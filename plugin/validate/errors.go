package validate

import (
	"strings"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
)

// All is one error for Packer's `validate` to print, with one line per problem;
// nil when there is none. Errors that errors.Join put together count singly.
func All(errs ...error) error {
	var all *packersdk.MultiError
	for _, err := range flatten(errs) {
		all = packersdk.MultiErrorAppend(all, err)
	}
	if all == nil { // a nil *MultiError in an error would not be nil
		return nil
	}
	return all
}

func flatten(errs []error) []error {
	var flat []error
	for _, err := range errs {
		if err == nil {
			continue
		}
		if parts := joined(err); parts != nil {
			flat = append(flat, flatten(parts)...)
			continue
		}
		flat = append(flat, err)
	}
	return flat
}

// joined is what errors.Join put together; nil for any other error, also for
// one that wraps several and has words of its own.
func joined(err error) []error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	parts := several.Unwrap()
	var lines []string
	for _, part := range parts {
		lines = append(lines, part.Error())
	}
	if strings.Join(lines, "\n") != err.Error() {
		return nil
	}
	return parts
}

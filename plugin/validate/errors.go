package validate

import (
	"strings"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
)

// All joins errors for Packer's `validate`, with one line for each problem; nil
// when there is none. Each part of an errors.Join is a problem of its own.
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

// joined returns the parts of an errors.Join; nil for any other error, also for an
// error that wraps several and adds text.
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

package ec2

import (
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// filter narrows what a Describe call answers.
type filter struct {
	Name   string   `query:"Name"`
	Values []string `query:"Value"`
}

// matches tells whether a resource passes all filters. A filter that the
// attributes do not have is refused: ignored, it would let everything pass.
func matches(filters []filter, attributes map[string]string, tags []Tag) (bool, error) {
	for _, filter := range filters {
		value, known := attributes[filter.Name]
		if key, isTag := strings.CutPrefix(filter.Name, "tag:"); isTag {
			known = true
			index := slices.IndexFunc(tags, func(tag Tag) bool { return tag.Key == key })
			if index < 0 {
				return false, nil
			}
			value = tags[index].Value
		}
		if !known {
			return false, endpoint.Refuse("the filter %q", filter.Name)
		}
		if !slices.ContainsFunc(filter.Values, func(pattern string) bool { return wildcard(pattern, value) }) {
			return false, nil
		}
	}
	return true, nil
}

// wildcard matches as EC2's filters do: * is any text, ? any one character
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html).
func wildcard(pattern, value string) bool {
	text := regexp.QuoteMeta(pattern)
	text = strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(text)
	return regexp.MustCompile(`(?s)^` + text + `$`).MatchString(value)
}

// selected picks by identifiers and filters. An identifier that does not exist
// is an error of the given code.
func selected[R any](all []R, ids []string, missing string, id func(R) string, pass func(R) (bool, error)) ([]R, error) {
	for _, want := range ids {
		if !slices.ContainsFunc(all, func(r R) bool { return id(r) == want }) {
			return nil, endpoint.Fail(missing, "the ID '%s' does not exist", want)
		}
	}
	var chosen []R
	for _, resource := range all {
		if len(ids) > 0 && !slices.Contains(ids, id(resource)) {
			continue
		}
		passes, err := pass(resource)
		if err != nil {
			return nil, err
		}
		if passes {
			chosen = append(chosen, resource)
		}
	}
	return chosen, nil
}

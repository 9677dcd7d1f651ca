package machine

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"
)

// Version is a program's release. Zero is unknown.
type Version struct {
	Major int `json:"major"`
	Minor int `json:"minor"`
	Patch int `json:"patch"`
}

var release = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bv?(\d+)\.(\d+)(?:\.(\d+))?`) })

// ParseVersion finds the first release number in a text such as
// "Kubernetes v1.34.4-eks-1a2b3c4" or "containerd github.com/containerd/containerd/v2 v2.1.0".
func ParseVersion(text string) (Version, error) {
	m := release().FindStringSubmatch(text)
	if m == nil {
		return Version{}, fmt.Errorf("there is no version in %q", text)
	}
	var n [3]int
	for i, s := range m[1:] {
		if s == "" {
			continue
		}
		var err error
		if n[i], err = strconv.Atoi(s); err != nil {
			return Version{}, fmt.Errorf("there is no version in %q", text)
		}
	}
	return Version{n[0], n[1], n[2]}, nil
}

// Less reports whether v is older than the release major.minor.
func (v Version) Less(major, minor int) bool {
	return v.Major < major || v.Major == major && v.Minor < minor
}

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

package distros

import (
	"errors"
	"fmt"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Release has the fields of os-release(5) on a machine.
type Release struct {
	// ID, IDLike, VersionID and BuildID are the fields of the same names.
	ID        string
	IDLike    []string
	VersionID string
	BuildID   string
	// PlatformID is PLATFORM_ID, such as "platform:el9".
	PlatformID string
	// PrettyName is the distribution's own name.
	PrettyName string
}

// String names the machine's distribution for errors.
func (r Release) String() string {
	s := fmt.Sprintf("ID=%q VERSION_ID=%q", r.ID, r.VersionID)
	if r.PrettyName != "" {
		return fmt.Sprintf("%s (%s)", r.PrettyName, s)
	}
	return "the distribution " + s
}

// errNoRelease means that a machine has no os-release(5).
var errNoRelease = errors.New("reading os-release: the machine has neither /etc/os-release nor /usr/lib/os-release")

// ReadRelease reads a machine's os-release(5), first from /etc, then from
// /usr/lib.
func ReadRelease(h *host.Host) (Release, error) {
	for _, name := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		data, err := h.Content(name)
		if err != nil {
			return Release{}, fmt.Errorf("reading os-release: %w", err)
		}
		if data == nil {
			continue
		}
		r, err := ParseRelease(string(data))
		if err != nil {
			return Release{}, fmt.Errorf("reading %s: %w", name, err)
		}
		return r, nil
	}
	return Release{}, errNoRelease
}

// ParseRelease reads the text of an os-release(5) file. Values may be bare, in
// single or in double quotes, and end with the line. They are read as a shell
// would, but nothing is expanded. A malformed value of a used field is an
// error, because guessing the wrong distribution is worse than stopping. Other
// fields may have any value.
func ParseRelease(text string) (Release, error) {
	var r Release
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.Trim(line, " \t\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		name, raw, ok := strings.Cut(line, "=")
		if !ok {
			return Release{}, fmt.Errorf("line %d is not NAME=VALUE", n)
		}
		set, ok := r.fields()[name]
		if !ok {
			continue
		}
		value, err := unquote(raw)
		if err != nil {
			return Release{}, fmt.Errorf("line %d: the value of %s %w", n, name, err)
		}
		set(value)
	}
	if r.ID == "" {
		r.ID = "linux" // os-release(5): what a missing ID means
	}
	return r, nil
}

// fields are the used fields, and the functions that store them.
func (r *Release) fields() map[string]func(string) {
	return map[string]func(string){
		"ID":          func(v string) { r.ID = v },
		"ID_LIKE":     func(v string) { r.IDLike = strings.Fields(v) },
		"VERSION_ID":  func(v string) { r.VersionID = v },
		"BUILD_ID":    func(v string) { r.BuildID = v },
		"PLATFORM_ID": func(v string) { r.PlatformID = v },
		"PRETTY_NAME": func(v string) { r.PrettyName = v },
	}
}

var (
	errOpenQuote = errors.New("has a quote without an end")
	errAfter     = errors.New("continues after its closing quote")
	errBare      = errors.New("needs quotes")
)

// unquote reads a value by the rules of the shell that os-release(5) allows.
func unquote(raw string) (string, error) {
	if raw == "" {
		return "", nil
	}
	switch quote := raw[0]; quote {
	case '\'':
		value, rest, ok := strings.Cut(raw[1:], "'")
		if !ok {
			return "", errOpenQuote
		}
		if rest != "" {
			return "", errAfter
		}
		return value, nil
	case '"':
		return unquoteDouble(raw[1:])
	default:
		if strings.ContainsAny(raw, " \t'\"\\$`;&|<>()*?[]#~") {
			return "", errBare
		}
		return raw, nil
	}
}

func unquoteDouble(raw string) (string, error) {
	var value strings.Builder
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; c {
		case '"':
			if i != len(raw)-1 {
				return "", errAfter
			}
			return value.String(), nil
		case '\\':
			if i++; i == len(raw) {
				return "", errOpenQuote
			}
			if !strings.ContainsRune("\"\\$`", rune(raw[i])) {
				value.WriteByte('\\')
			}
			value.WriteByte(raw[i])
		default:
			value.WriteByte(c)
		}
	}
	return "", errOpenQuote
}

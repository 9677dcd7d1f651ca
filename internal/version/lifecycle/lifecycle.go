// Package lifecycle has the one table of versions: of the programs that eksnode installs,
// and of the releases of distributions, each with its end of support and the source of
// that day. Defaults, warnings, lock files, the command distros and the pages read it.
// `make versions` compares it with the publishers.
package lifecycle

import (
	"cmp"
	_ "embed"
	"slices"
	"strings"
	"sync"
)

// Checked is the day on which the table was last compared with its sources. Pages call a
// release ended if its support had ended by then.
const Checked = "2026-11-28"

// Row is a release line, or another end of the support of one.
type Row struct {
	// ID is that of an asset or of a distribution.
	ID string
	// Version is the line, such as "1.36". For a distribution it is a release as in
	// distros.Distro.Releases.
	Version string
	// Newest is the line's newest release that eksnode installs and tests. It is empty
	// for a distribution, and for a line that eksnode never installs.
	Newest string
	// Of names what ends, and Ends is its last day in the form of time.DateOnly. Both
	// are empty if the publisher names no day.
	Of, Ends string
	// Source is the address of the publisher's statement.
	Source string
}

//go:embed versions.txt
var versions string

// table has a row for each line of versions.txt. A source is an address or the name of one.
var table = sync.OnceValue(func() (rows []Row) {
	sources := map[string]string{}
	for line := range strings.Lines(versions) {
		words := strings.Split(strings.TrimSpace(line), "|")
		for i := range words {
			words[i] = strings.TrimSpace(words[i])
		}
		switch {
		case line == "\n" || line[0] == '#':
		case words[0] == "source" && len(words) == 3:
			sources[words[1]] = words[2]
		case len(words) == 6:
			rows = append(rows, Row{
				ID: words[0], Version: words[1], Newest: words[2], Ends: words[3], Of: words[4],
				Source: cmp.Or(sources[words[5]], words[5]),
			})
		default:
			panic("versions.txt is damaged: " + line) // a test reads the table
		}
	}
	return rows
})

// All returns the table.
func All() []Row { return slices.Clone(table()) }

// Of returns the rows of an ID, those of the newest line first.
func Of(id string) []Row {
	return slices.DeleteFunc(All(), func(r Row) bool { return r.ID != id })
}

// Line returns the rows of a complete version's line, the line's own end first. It is
// empty for an unknown line.
func Line(id, version string) []Row {
	return slices.DeleteFunc(Of(id), func(r Row) bool {
		return r.Version != version && !strings.HasPrefix(version, r.Version+".")
	})
}

// Default returns the release that eksnode installs: that of the newest line with an end
// of support, because EKS names one for each version of Kubernetes that it has. Where no
// line has an end, the newest line counts.
func Default(id string) string {
	rows := Of(id)
	i := max(0, slices.IndexFunc(rows, func(r Row) bool { return r.Newest != "" && r.Ends != "" }))
	return rows[i].Newest
}

// Kubernetes returns the default version of the kubelet.
func Kubernetes() string { return Default("kubelet") }

// Releases returns the newest release of each line that eksnode installs, the default
// first.
func Releases(id string) []string {
	list := []string{Default(id)}
	for _, r := range Of(id) {
		if r.Newest != "" && !slices.Contains(list, r.Newest) {
			list = append(list, r.Newest)
		}
	}
	return list
}

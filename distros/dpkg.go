package distros

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// dpkgPackage is a package; a machine may have it for several architectures.
type dpkgPackage struct{ name, arch string }

func (p dpkgPackage) compare(q dpkgPackage) int {
	return cmp.Or(strings.Compare(p.name, q.name), strings.Compare(p.arch, q.arch))
}

// dpkgEntry is the state of a package; see dpkg(1).
type dpkgEntry struct {
	want string // the requested state, such as "install"
	// again says that dpkg can finish the package only by unpacking it again.
	again bool
	state string
	// fresh says that the package was not installed before.
	fresh bool
}

// wanted reports whether the package was to be installed, not removed.
func (s dpkgEntry) wanted() bool { return s.want == "install" || s.want == "hold" }

// unfinished reports whether the package is not in its final state.
func (s dpkgEntry) unfinished() bool { return s.again || dpkgHeals[s.state] != "" }

// dpkgRead returns the state of each package from dpkg's status and journal, as
// dpkg reads them, and the number of entries in the journal. A killed dpkg
// leaves its last changes in the journal, and apt refuses to work until dpkg
// has processed them.
func dpkgRead(h *host.Host, status []byte) (map[dpkgPackage]dpkgEntry, int, error) {
	entries, err := journalEntries(h)
	if err != nil {
		return nil, 0, err
	}
	states := map[dpkgPackage]dpkgEntry{}
	for _, text := range append([]string{string(status)}, entries...) { // what is newer comes later
		dpkgRecords(text, states)
	}
	return states, len(entries), nil
}

// dpkgRecords records the states in a file of deb-control(5)'s form: the wanted
// state, whether the package must be installed again, and the state.
func dpkgRecords(text string, states map[dpkgPackage]dpkgEntry) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		fields := map[string]string{}
		for line := range strings.Lines(paragraph) {
			if name, value, ok := strings.Cut(line, ":"); ok {
				fields[name] = strings.TrimSpace(value)
			}
		}
		if fields["Package"] == "" {
			continue
		}
		s := dpkgEntry{want: "install", state: fields["Status"], fresh: fields["Config-Version"] == ""}
		if words := strings.Fields(s.state); len(words) == 3 {
			s.want, s.again, s.state = words[0], words[1] == "reinstreq" || words[2] == "half-installed", words[2]
		}
		states[dpkgPackage{fields["Package"], fields["Architecture"]}] = s
	}
}

// journalEntries returns the contents of dpkg's journal, in the order of
// writing.
func journalEntries(h *host.Host) ([]string, error) {
	files, err := afero.ReadDir(h.Files, dpkgJournal) // sorted
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state of packages: %w", err)
	}
	var entries []string
	for _, f := range files {
		if strings.Trim(f.Name(), "0123456789") != "" {
			continue // a temporary file: it counts as not written
		}
		text, err := database(h, path.Join(dpkgJournal, f.Name()))
		if err != nil {
			return nil, err
		}
		entries = append(entries, string(text))
	}
	return entries, nil
}

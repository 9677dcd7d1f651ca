package distros

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
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
	for fields := range packages.Paragraphs(text) {
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

const (
	// dpkgJournal has changes that dpkg has not yet written into its status.
	dpkgJournal = "/var/lib/dpkg/updates"
	dpkgInfo    = "/var/lib/dpkg/info"
)

// servicePolicy is the rule that removes the policy of a killed agent. A policy
// of another origin stays.
func servicePolicy() scrub.Rule {
	return scrub.Rule{
		ID: "apt-policy", Phase: scrub.Caches, Groups: []string{"packages"}, Verb: plan.Remove,
		Paths: []string{policyPath}, Owner: "eksnode",
		Why: "an agent that was killed while it installed packages leaves a policy that stops packages from " +
			"starting services",
		Regenerated: "nothing", Source: "invoke-rc.d(8)",
		Look: func(d *scrub.Draft) {
			const why = "an agent that was killed left this policy, which stops packages from starting services"
			d.OwnTexts(d.Paths, func(name string, text []byte) {
				if string(text) == policy {
					d.Remove(name, why)
				}
			})
		},
	}
}

// dpkgHeals are the states of dpkg(1), with the remedy for a package in each
// state; empty if none is needed.
var dpkgHeals = map[string]string{
	"": "", "not-installed": "", "config-files": "", "installed": "",
	"half-installed": `run "apt-get install --reinstall %s"`,
	"unpacked":       `run "dpkg --configure -a"`, "half-configured": `run "dpkg --configure -a"`,
	"triggers-awaited": `run "dpkg --configure -a"`, "triggers-pending": `run "dpkg --configure -a"`,
}

// dpkgState reports packages that dpkg left half done, and a journal that it
// has not processed.
func dpkgState(d *scrub.Draft) {
	status, err := database(d.Host, dpkgStatus)
	if d.Failed(err) {
		return
	}
	if len(status) == 0 {
		if d.Exists(dpkgInfo) {
			d.Failed(fmt.Errorf("reading the state of packages: %s is missing or empty; copy %s-old over it",
				dpkgStatus, dpkgStatus))
		}
		return
	}
	states, entries, err := dpkgRead(d.Host, status)
	if d.Failed(err) {
		return
	}
	for _, p := range slices.SortedFunc(maps.Keys(states), dpkgPackage.compare) {
		s := states[p]
		heal, known := dpkgHeals[s.state]
		if !known {
			d.Failed(fmt.Errorf("reading the state of packages: %s has %s in the state %.80q, which dpkg does not know",
				dpkgStatus, plainName(p.name), s.state))
			return
		}
		if s.again {
			heal = dpkgHeals["half-installed"]
		}
		if heal != "" && !s.wanted() {
			heal = `run "dpkg --remove --force-remove-reinstreq %s"`
		}
		if heal != "" {
			d.Find(plainName(p.name), fmt.Sprintf("dpkg left the package %s: %s", s.state,
				strings.ReplaceAll(heal, "%s", plainName(p.name))))
		}
	}
	if entries > 0 {
		d.Find(dpkgJournal, `dpkg was interrupted before it processed its journal: run "dpkg --configure -a"`)
	}
}

// Unfinished lists packages that a killed apt or dpkg left half installed.
func (aptManager) Unfinished(h *host.Host) ([]string, error) {
	states, journal, err := dpkgUnfinished(h)
	if err != nil {
		return nil, err
	}
	if len(states) == 0 && journal > 0 {
		return []string{"dpkg's journal"}, nil
	}
	return dpkgNames(states, func(dpkgEntry) bool { return true }), nil
}

func dpkgUnfinished(h *host.Host) (map[dpkgPackage]dpkgEntry, int, error) {
	status, err := database(h, dpkgStatus)
	if err != nil {
		return nil, 0, err
	}
	states, journal, err := dpkgRead(h, status)
	maps.DeleteFunc(states, func(_ dpkgPackage, s dpkgEntry) bool { return !s.unfinished() })
	return states, journal, err
}

// dpkgNames lists the packages in certain states.
func dpkgNames(states map[dpkgPackage]dpkgEntry, in func(dpkgEntry) bool) []string {
	var names []string
	for p, s := range states {
		if in(s) {
			names = append(names, p.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Finish configures unpacked packages. dpkg cannot finish a package that was
// killed while it was unpacked; Finish installs it again.
func (m aptManager) Finish(ctx context.Context, h *host.Host) (err error) {
	restore, err := quiet(h)
	if err != nil {
		return while(finishing, err)
	}
	defer func() { err = errors.Join(err, restore()) }()
	unconfigured := m.tool.run(ctx, h, m.configure()) // perhaps for want of one that is unpacked below
	states, _, err := dpkgUnfinished(h)
	if err != nil {
		return while(finishing, err)
	}
	maps.DeleteFunc(states, func(_ dpkgPackage, s dpkgEntry) bool { return !s.again })
	if len(states) == 0 {
		return while(finishing, unconfigured)
	}
	if err := m.unpackAgain(ctx, h, states); err != nil {
		return while(finishing, err)
	}
	return while(finishing, m.tool.run(ctx, h, m.configure()))
}

// unpackAgain installs packages again, and removes those whose removal was
// interrupted.
func (m aptManager) unpackAgain(ctx context.Context, h *host.Host, states map[dpkgPackage]dpkgEntry) error {
	run := func(names []string, argv ...string) error {
		if len(names) == 0 {
			return nil
		}
		return m.tool.run(ctx, h, slices.Concat(argv, []string{"--"}, names))
	}
	gone := dpkgNames(states, func(s dpkgEntry) bool { return !s.wanted() })
	if err := run(gone, "dpkg", "--remove", "--force-remove-reinstreq"); err != nil || len(gone) == len(states) {
		return err
	}
	if err := m.Refresh(ctx, h); err != nil {
		return err
	}
	wanted := dpkgNames(states, dpkgEntry.wanted)
	if err := run(wanted, m.get("install", "--reinstall", "--no-install-recommends", "--allow-change-held-packages",
		"--no-remove")...); err != nil {
		return err
	}
	// What was new is a dependency, or is going to be installed by its name.
	return run(dpkgNames(states, func(s dpkgEntry) bool { return s.wanted() && s.fresh }), "apt-mark", "auto")
}

// configure returns the command line that finishes unpacked packages.
func (m aptManager) configure() []string {
	return append([]string{"dpkg", "--configure", "-a"}, m.dpkgOptions...)
}

// Leftover returns the policy of a killed Install, whole or as a temporary
// file. While a package is unfinished, the policy stays in force: the killed
// Install's dpkg may still run, and Finish takes over the policy.
func (m aptManager) Leftover(h *host.Host) ([]string, error) {
	left, err := h.Leftovers(policyPath)
	if err != nil {
		return nil, err
	}
	text, err := h.Content(policyPath)
	if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", policyPath, err)
	}
	if string(text) != policy {
		return left, nil
	}
	unfinished, err := m.Unfinished(h)
	if err != nil || len(unfinished) > 0 {
		return left, err
	}
	return append(left, policyPath), nil
}

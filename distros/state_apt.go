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
)

const (
	// dpkgJournal has what dpkg has not written into its status yet.
	dpkgJournal = "/var/lib/dpkg/updates"
	dpkgInfo    = "/var/lib/dpkg/info"
	// leftPolicyPath and leftPolicy are a policy of ours, by which no service
	// starts; one that was killed left it. See invoke-rc.d(8).
	leftPolicyPath = "/usr/sbin/policy-rc.d"
	leftPolicy     = "#!/bin/sh\n# eksnode: no service starts while packages are installed\nexit 101\n"
)

// servicePolicy is the rule that takes away the policy of an agent that was
// killed. A policy of anybody else stays.
func servicePolicy() scrub.Rule {
	return scrub.Rule{
		ID: "apt-policy", Phase: scrub.Caches, Groups: []string{"packages"}, Verb: plan.Remove,
		Paths: []string{leftPolicyPath}, Owner: "eksnode",
		Why:         "an agent that was killed while it installed packages leaves its policy: no package starts a service on any node",
		Regenerated: "nothing", Source: "invoke-rc.d(8)",
		Find: func(_ context.Context, h *host.Host) ([]plan.Action, error) {
			st, err := h.Files.Lstat(leftPolicyPath)
			if errors.Is(err, fs.ErrNotExist) || err == nil && (!st.Mode().IsRegular() || st.Size() != int64(len(leftPolicy))) {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			text, err := h.Content(leftPolicyPath)
			if err != nil || string(text) != leftPolicy {
				return nil, err
			}
			return []plan.Action{{Verb: plan.Remove, Target: leftPolicyPath, Reason: "an agent that was killed left it, and no package starts a service",
				Count: func() (host.Removal, error) { return h.Files.Measure(leftPolicyPath, false) },
				Take:  func(context.Context) (host.Removal, error) { return h.Files.RemoveTree(leftPolicyPath) }}}, nil
		},
	}
}

// dpkgStates are dpkg(1)'s states, with what heals a package in it; empty where
// nothing has to be healed.
var dpkgStates = map[string]string{
	"": "", "not-installed": "", "config-files": "", "installed": "",
	"half-installed": `run "apt-get install --reinstall %s"`,
	"unpacked":       `run "dpkg --configure -a"`, "half-configured": `run "dpkg --configure -a"`,
	"triggers-awaited": `run "dpkg --configure -a"`, "triggers-pending": `run "dpkg --configure -a"`,
}

// dpkgState reports packages that dpkg left half done, and a journal that it has
// not taken over.
func dpkgState(_ context.Context, h *host.Host) ([]plan.Action, error) {
	status, err := database(h, dpkgStatus)
	if err != nil {
		return nil, err
	}
	if len(status) == 0 {
		listed, err := h.Exists(dpkgInfo)
		if err == nil && listed {
			err = fmt.Errorf("reading the state of packages: %s is missing or empty; copy %s-old over it", dpkgStatus, dpkgStatus)
		}
		return nil, err
	}
	entries, err := journalEntries(h)
	if err != nil {
		return nil, err
	}
	states := map[dpkgPackage]string{}
	for _, text := range append([]string{string(status)}, entries...) { // what is newer comes later
		dpkgRecords(text, states)
	}
	var actions []plan.Action
	for _, p := range slices.SortedFunc(maps.Keys(states), dpkgPackage.compare) {
		state, again := strings.CutPrefix(states[p], "reinstreq ")
		heal, known := dpkgStates[state]
		if !known {
			return nil, fmt.Errorf("reading the state of packages: %s has %s in the state %.80q, which dpkg does not know", dpkgStatus, plainName(p.name), state)
		}
		if again {
			heal = dpkgStates["half-installed"]
		}
		if heal != "" {
			actions = append(actions, broken(plainName(p.name), "dpkg left it %s: %s", state, strings.ReplaceAll(heal, "%s", plainName(p.name))))
		}
	}
	if len(entries) > 0 {
		actions = append(actions, broken(dpkgJournal, `dpkg was interrupted before it took its journal over: run "dpkg --configure -a"`))
	}
	return actions, nil
}

// dpkgPackage is a package; a machine may have it for several architectures.
type dpkgPackage struct{ name, arch string }

func (p dpkgPackage) compare(q dpkgPackage) int {
	return cmp.Or(strings.Compare(p.name, q.name), strings.Compare(p.arch, q.arch))
}

// dpkgRecords notes the states in a file of deb-control(5)'s form: what is
// wanted, whether the package must be installed again, and the state.
func dpkgRecords(text string, states map[dpkgPackage]string) {
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
		p := dpkgPackage{fields["Package"], fields["Architecture"]}
		switch words := strings.Fields(fields["Status"]); {
		case len(words) != 3:
			states[p] = fields["Status"]
		case words[1] == "reinstreq":
			states[p] = "reinstreq " + words[2]
		default:
			states[p] = words[2]
		}
	}
}

// journalEntries are the contents of dpkg's journal, in the order it wrote them.
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

package distros

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

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
		Why:         "an agent that was killed while it installed packages leaves a policy that stops packages from starting services",
		Regenerated: "nothing", Source: "invoke-rc.d(8)",
		Find: func(_ context.Context, h *host.Host) (plan.Answer, error) {
			st, err := h.Files.Lstat(policyPath)
			if errors.Is(err, fs.ErrNotExist) || err == nil && (!st.Mode().IsRegular() || st.Size() != int64(len(policy))) {
				return plan.Answer{}, nil
			}
			if err != nil {
				return plan.Answer{}, err
			}
			text, err := h.Content(policyPath)
			if err != nil || string(text) != policy {
				return plan.Answer{}, err
			}
			return plan.Acts(plan.Action{Verb: plan.Remove, Target: policyPath, Reason: "an agent that was killed left this policy, which stops packages from starting services",
				Count: func() (host.Removal, error) { return h.Files.Measure(policyPath, false) },
				Take:  func(context.Context) (host.Removal, error) { return h.Files.RemoveTree(policyPath) }}), nil
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
func dpkgState(_ context.Context, h *host.Host) (plan.Answer, error) {
	status, err := database(h, dpkgStatus)
	if err != nil {
		return plan.Answer{}, err
	}
	if len(status) == 0 {
		listed, err := h.Exists(dpkgInfo)
		if err == nil && listed {
			err = fmt.Errorf("reading the state of packages: %s is missing or empty; copy %s-old over it", dpkgStatus, dpkgStatus)
		}
		return plan.Answer{}, err
	}
	states, entries, err := dpkgRead(h, status)
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, p := range slices.SortedFunc(maps.Keys(states), dpkgPackage.compare) {
		s := states[p]
		heal, known := dpkgHeals[s.state]
		if !known {
			return plan.Answer{}, fmt.Errorf("reading the state of packages: %s has %s in the state %.80q, which dpkg does not know", dpkgStatus, plainName(p.name), s.state)
		}
		if s.again {
			heal = dpkgHeals["half-installed"]
		}
		if heal != "" && !s.wanted() {
			heal = `run "dpkg --remove --force-remove-reinstreq %s"`
		}
		if heal != "" {
			answer.Find(plainName(p.name), fmt.Sprintf("dpkg left the package %s: %s", s.state, strings.ReplaceAll(heal, "%s", plainName(p.name))))
		}
	}
	if entries > 0 {
		answer.Find(dpkgJournal, `dpkg was interrupted before it processed its journal: run "dpkg --configure -a"`)
	}
	return answer, nil
}

//go:build linux

package scrub

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A selection that leaves a scrub or an audit nothing to do is an error, not a
// success.
func TestSelectionsThatDoNothingAreRefused(t *testing.T) {
	const (
		scrubs = "rules: the selected rules only report, so a scrub would change nothing: run an audit with these rules, or also select rules that remove something"
		audits = "rules: the selected rules only stop programs, so an audit would check nothing: also select rules that look for leftover state"
	)
	for name, c := range map[string]struct {
		spec         Spec
		scrub, audit string
	}{
		"a rule of the audit":         {Spec{Only: []string{"secrets-left"}}, scrubs, ""},
		"rules of the audit":          {Spec{Only: []string{"assets", "host-firewall", "kernel-modules"}}, scrubs, ""},
		"the rest of a group":         {Spec{Only: []string{"secrets-left", "pki"}, Skip: []string{"kubelet-pki", "cluster-ca"}}, scrubs, ""},
		"a rule of the audit and one": {Spec{Only: []string{"secrets-left", "hostname"}}, "", ""},
		"with a wipe":                 {Spec{Only: []string{"secrets-left"}, WipeFreeSpace: true}, "", ""},
		"a rule of a scrub":           {Spec{Only: []string{"kubelet-running"}}, "", audits},
		"everything":                  {Spec{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, items := c.spec.Items(nil)
			_, planned := c.spec.PlanItems(nil)
			_, audited := c.spec.AuditItems(nil)
			for _, err := range []error{items, planned, c.spec.Validate(nil)} {
				if c.scrub == "" {
					require.NoError(t, err)
				} else {
					require.EqualError(t, err, c.scrub)
				}
			}
			for _, err := range []error{audited, c.spec.ValidateAudit(nil)} {
				if c.audit == "" {
					require.NoError(t, err)
				} else {
					require.EqualError(t, err, c.audit)
				}
			}
		})
	}
}

// The names of an operator's rules must be usable, and must not be those of
// other rules, also of a distribution.
func TestNamesOfOwnRulesAreChecked(t *testing.T) {
	rule := func(id string, groups ...string) OwnRule {
		return OwnRule{ID: id, Phase: State, Action: "remove", Why: "x", Paths: []string{"/var/lib/x/*"}, Groups: groups}
	}
	more := []Rule{{ID: "apt-caches", Phase: Caches, Groups: []string{"packages"}}}
	for name, c := range map[string]struct {
		own []OwnRule
		err string
	}{
		"an empty group":        {[]OwnRule{rule("x", "")}, `own rule "x": groups: "" must consist of small letters, digits and hyphens`},
		"a group with a space":  {[]OwnRule{rule("x", "a b")}, `own rule "x": groups: "a b" must consist of small letters, digits and hyphens`},
		"a group with a comma":  {[]OwnRule{rule("x", "a,b")}, `own rule "x": groups: "a,b" must consist of small letters, digits and hyphens`},
		"a rule as a group":     {[]OwnRule{rule("x", "machine-id")}, `own rule "x": groups: "machine-id" is a rule of eksnode; choose another name`},
		"its own ID as a group": {[]OwnRule{rule("x", "x")}, `own rule "x": groups: "x" is the ID of a rule in the file; choose another name`},
		"another's ID":          {[]OwnRule{rule("x", "y"), rule("y")}, `own rule "x": groups: "y" is the ID of a rule in the file; choose another name`},
		"a group twice":         {[]OwnRule{rule("x", "a", "a")}, `own rule "x": groups: "a" is listed twice`},
		"a distribution's rule": {[]OwnRule{rule("apt-caches")}, `own rule "apt-caches": id: "apt-caches" is a rule or group of eksnode; choose another`},
		"a distribution's rule as a group": {[]OwnRule{rule("x", "apt-caches")},
			`own rule "x": groups: "apt-caches" is a rule of eksnode; choose another name`},
		"an ID twice":      {[]OwnRule{rule("x"), rule("x")}, `own rule "x": id: "x" is used twice`},
		"a built-in group": {[]OwnRule{rule("x", "kubelet", "agents")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Spec{Own: c.own}.Items(more)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			assert.EqualError(t, err, c.err)
		})
	}
}

// A folder in place of a machine ID is a finding of the rule, and the rest of the
// scrub and the audit goes on.
func TestAFolderInPlaceOfTheMachineID(t *testing.T) {
	const irregular = "/etc/machine-id: the file is not a regular file, and systemd needs an empty regular file: remove /etc/machine-id"
	for name, c := range map[string]struct {
		files    map[string]string
		want     []string
		findings []string
	}{
		"empty":              {map[string]string{"etc/machine-id/": ""}, nil, []string{irregular}},
		"with files":         {map[string]string{"etc/machine-id/x": "x"}, nil, []string{irregular}},
		"a link to a folder": {map[string]string{"etc/machine-id": "-> /var/lib/ids", "var/lib/ids/x": "x"}, nil, []string{irregular}},
		"D-Bus, empty":       {map[string]string{"etc/machine-id": "", "var/lib/dbus/machine-id/": ""}, []string{"- /var/lib/dbus/machine-id"}, nil},
		"D-Bus, with files": {map[string]string{"etc/machine-id": "", "var/lib/dbus/machine-id/x": "x"}, nil, []string{
			"/var/lib/dbus/machine-id: a folder with files stands in place of the file: remove /var/lib/dbus/machine-id",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c.files["etc/passwd"] = passwd
			h, root := tree(t, c.files)
			before := snapshot(t, root)
			var findings []string
			for _, o := range apply(t, h, Spec{Only: []string{"machine-id", "dbus-machine-id"}}) {
				for _, f := range o.Findings {
					findings = append(findings, f.Target+": "+f.Reason)
				}
			}
			assert.Equal(t, c.findings, findings)
			assert.Equal(t, c.want, diff(before, snapshot(t, root)))
			assert.ElementsMatch(t, c.findings, audit(t, h, "machine-id", "dbus-machine-id", "host-ids-left"))
		})
	}
}

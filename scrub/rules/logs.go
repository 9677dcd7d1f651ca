package rules

import (
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// rotated are the names that logrotate, journald and savelog give to old logs.
var rotated = rule.Expression(`(\.gz|\.xz|\.bz2|\.zst|\.old|\.\d+|-\d{8}(-\d+)?|\.\d{8})$`)

// logins plans the removal of login records. At shutdown, systemd records the
// end of every getty, but only in existing files. So a file that tmpfiles.d(5)
// creates again at boot is removed, and the captured image has no such record.
func logins(d *rule.Draft) {
	for _, name := range d.Paths {
		verb := plan.Empty
		if madeAtBoot(d, name) {
			verb = plan.Remove
		}
		d.Plan(verb, name, "it says who logged in to the build machine")
	}
}

// madeAtBoot reports whether a configuration of tmpfiles.d(5) creates the file.
func madeAtBoot(d *rule.Draft, name string) (made bool) {
	d.EachLine(d.Glob("/etc/tmpfiles.d/*.conf", "/usr/lib/tmpfiles.d/*.conf"), func(_ string, _ int, line string) {
		w := strings.Fields(line)
		made = made || len(w) > 1 && strings.HasPrefix(w[0], "f") && w[1] == name
	})
	return made
}

// logFiles plans every file below /var/log that no other rule removes or empties.
func logFiles(d *rule.Draft) {
	var others []string
	for _, r := range rows() {
		for _, p := range r.Paths {
			if r.ID != "log-files" && r.Verb != rule.Report && rule.Within("/var/log", p) {
				others = append(others, p)
			}
		}
	}
	isSettled := func(name string) bool {
		return rule.Kept(others, name) || slices.ContainsFunc(others,
			func(p string) bool { return rule.Within(strings.TrimSuffix(p, "/*"), name) })
	}
	foreign := d.Walk(func(e host.Entry) error {
		switch {
		case isSettled(e.Path):
			return skipFolder(e)
		case !e.Mode().IsRegular():
			return nil
		}
		verb := plan.Empty
		if rotated().MatchString(path.Base(e.Path)) {
			verb = plan.Remove
		}
		d.Plan(verb, e.Path, "it holds what the build logged")
		return d.Err
	})
	foreign = slices.DeleteFunc(foreign, func(m *host.ForeignMount) bool { return isSettled(m.Path) })
	d.Found(rule.ForeignFindings(d.Host, foreign)...)
}

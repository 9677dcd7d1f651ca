package rules

import (
	"path"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// lingering plans the removal of the marks of people without an account.
func lingering(d *rule.Draft) {
	accounts := d.Accounts()
	for _, name := range d.Glob(d.Paths...) {
		if !slices.ContainsFunc(accounts, func(a rule.Account) bool { return a.Name == path.Base(name) }) {
			d.Remove(name, "names a person without an account")
		}
	}
}

// homesWithoutAccount reports homes of people who have no account on this
// machine.
func homesWithoutAccount(d *rule.Draft) {
	for _, name := range d.Known(d.Paths[1:]...) {
		d.Find(name, "home of a person of systemd-homed: run homectl remove, or remove the file")
	}
	for _, a := range strangerHomes(d, d.Accounts()) {
		attr, err := d.Host.Files.Attributes(a.Home)
		d.Failed(err)
		// Programs have folders in /home, but no skeleton of a home.
		inReported := rule.About(d.Answer.Findings, path.Dir(a.Home))
		if !inReported && (attr.UID >= 1000 || len(d.Glob(rule.QuoteGlob(a.Home)+"/.[a-z]*")) > 0) {
			d.Find(a.Home, "home of an account that this machine does not know: move what the image needs, and "+
				"remove the folder")
		}
	}
}

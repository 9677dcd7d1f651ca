package rules

import (
	"io/fs"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// runLeft reports files below /run of an image that does not run.
func runLeft(d *rule.Draft) {
	if d.Host.IsLive() {
		d.Answer.NotApplicable = "the rule is for image roots: a running machine needs the files in /run"
		return
	}
	if st := d.Lstat("/var/run"); st != nil && st.Mode()&fs.ModeSymlink != 0 {
		d.Paths = d.Paths[:1] // the link leads to /run
	}
	foreign := d.Walk(func(e host.Entry) error {
		ofMachine := e.IsDir() || e.Mode()&fs.ModeSymlink != 0
		if !ofMachine && (!e.Mode().IsRegular() || e.Size() > 0) { // a lock and a container's mount point are empty
			d.Find(e.Path, "left by an earlier boot: remove it")
		}
		return nil
	})
	d.Found(rule.ForeignFindings(d.Host, foreign)...)
}

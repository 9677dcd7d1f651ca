package rules

import (
	"io/fs"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

func runRule() rule.Rule {
	return rule.Rule{
		ID: "run-left", Phase: rule.Inspect, Groups: []string{"kubelet", "network"}, Verb: rule.Report,
		Paths: []string{"/run/**", "/var/run/**"}, Owner: "daemons, the VPC CNI",
		Why:         "the image keeps state of another boot in /run, such as the leases in aws-node/ipam.json; a node never sees these files, but everyone with the image can read them",
		Regenerated: "every boot", Source: "file-hierarchy(7), amazon-vpc-cni-k8s",
		Look: runLeft,
	}
}

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

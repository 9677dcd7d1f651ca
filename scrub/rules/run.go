package rules

import (
	"io/fs"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

func runRules() []rule.Rule {
	return []rule.Rule{
		{
			ID: "run-left", Phase: rule.Inspect, Groups: []string{"kubelet", "network"}, Verb: rule.Report,
			Paths: []string{"/run/**"}, Owner: "daemons, the VPC CNI",
			Why:         "the image keeps state of another boot in /run, such as the leases in aws-node/ipam.json; a node never sees these files, but everyone with the image can read them",
			Regenerated: "every boot", Source: "file-hierarchy(7), amazon-vpc-cni-k8s",
			Look: runLeft,
		},
	}
}

// runLeft reports files below /run of an image that does not run.
func runLeft(d *rule.Draft) {
	if d.Host.IsLive() {
		d.Answer.NotApplicable = "the rule is for image roots: a running machine needs the files in /run"
		return
	}
	for _, dir := range []string{"/run", "/var/run"} {
		if st := d.Lstat(dir); st == nil || !st.IsDir() { // a link points to the other folder
			continue
		}
		foreign, err := d.Host.Files.Walk(d.Ctx, dir, dir, func(e host.Entry, err error) error {
			if err != nil || e.IsDir() || e.Mode()&fs.ModeSymlink != 0 {
				return err
			}
			if !e.Mode().IsRegular() || e.Size() > 0 { // a lock and a container's mount point are empty
				d.Find(e.Path, "left by an earlier boot: remove it")
			}
			return nil
		})
		d.Failed(err)
		d.Found(rule.ForeignFindings(d.Host, foreign)...)
	}
}

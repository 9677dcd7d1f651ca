package rules

import (
	"context"
	"path"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

func volumesOfPods(d *rule.Draft) {
	for _, dir := range d.Paths {
		if len(d.Glob(dir+"/*")) > 0 {
			d.Find(dir, "volumes of pods are in this folder: move the data that you need, remove the rest")
		}
	}
}

// knownToRules reports whether a rule covers an entry of the kubelet's folder,
// or whether the entry is the folder seccomp, whose profiles pods refer to.
func knownToRules(entry string) bool {
	for _, r := range rows() {
		for _, p := range r.Paths {
			rest, below := strings.CutPrefix(p, rule.KubeletDir+"/")
			first, _, _ := strings.Cut(rest, "/")
			if known, err := path.Match(first, entry); below && strings.Trim(first, "*") != "" && known && err == nil {
				return true
			}
		}
	}
	return entry == "seccomp"
}

func unknownKubeletFiles(d *rule.Draft) {
	joined := kubeadm.there(d)
	for _, n := range d.Glob(d.Paths...) {
		switch base := path.Base(n); {
		case host.IsTemporary(base):
			d.Remove(n, "a run that was killed left it")
		case base == "config.yaml" && joined:
			d.Remove(n, "kubeadm wrote it for the old cluster")
		case !knownToRules(base):
			d.Find(n, "no rule covers this file: remove it by hand if it is state of the old cluster")
		}
	}
}

// unmountBelow unmounts everything below the row's folders, the deepest mount first.
// On an image root it only reports the mounts, because the image does not own
// them; rules that would have to cross them fail.
func unmountBelow(d *rule.Draft) {
	for _, dir := range d.Tops() {
		mounts, err := d.Host.Files.MountsBelow(dir)
		d.Failed(err)
		for _, m := range mounts {
			d.Act(plan.Action{Verb: plan.Unmount, Target: m.Path,
				Reason: m.Type + " of " + m.Source + " is mounted there",
				Do:     func(context.Context, plan.Progress) error { return d.Host.Unmount(m.Path) }})
		}
	}
}

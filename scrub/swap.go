package scrub

import (
	"context"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func swapRules() []Rule {
	return []Rule{
		{
			ID: "swap", Phase: Identity, Groups: []string{"identity", "secrets"}, Verb: plan.Remove,
			Paths: append(slices.Clone(swapFiles), "/etc/fstab"), Owner: "an administrator",
			Why: "swap contains the memory of the build, and the kubelet does not start with active swap", Regenerated: "nothing", Source: "image-builder",
			Find: unusedSwapFiles,
		},
	}
}

// unusedSwapFiles plans the removal of swap files. A swap file in use is a
// finding: its memory must go elsewhere first.
func unusedSwapFiles(_ context.Context, h *host.Host) (plan.Answer, error) {
	active := ""
	if h.IsLive() {
		text, err := h.Content("/proc/swaps")
		if err != nil {
			return plan.Answer{}, err
		}
		active = string(text)
	}
	var answer plan.Answer
	for _, name := range swapFiles {
		st, err := h.Files.Lstat(name)
		if isMissing(err) || err == nil && !st.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return plan.Answer{}, err
		}
		if strings.Contains(active, name+" ") {
			answer.Find(name, "in use as swap: run swapoff "+name+" and remove its line from /etc/fstab")
			continue
		}
		a, err := planPath(h, plan.Remove, name, "it holds memory of the build")
		if err != nil {
			return plan.Answer{}, err
		}
		answer.Add(a)
	}
	table, err := fstabWithoutSwapFiles(h, active)
	answer.Add(table)
	return answer, err
}

// swapFiles are the usual names, and the name that EC2's hibernation agent
// uses.
var swapFiles = []string{"/swapfile", "/swap.img", "/hibfile.sys", "/swap-hibinit", "/swap"}

// fstabWithoutSwapFiles plans fstab(5) without the lines of removed swap files:
// a boot would wait for them.
func fstabWithoutSwapFiles(h *host.Host, active string) (plan.Answer, error) {
	const name = "/etc/fstab"
	text, err := h.Content(name)
	if err != nil {
		return plan.Answer{}, err
	}
	var left strings.Builder
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 2 && f[2] == "swap" && slices.Contains(swapFiles, f[0]) && !strings.Contains(active, f[0]+" ") {
			continue
		}
		left.WriteString(line)
	}
	if left.Len() == len(text) {
		return plan.Answer{}, nil
	}
	attr, err := h.Files.Attributes(name)
	if err != nil {
		return plan.Answer{}, err
	}
	return plan.Acts(plan.Action{Verb: plan.Write, Target: name, Reason: "names a swap file that the scrub removes",
		Do: func(context.Context, plan.Progress) error {
			return h.Files.WriteFile(name, []byte(left.String()), attr)
		}}), nil
}

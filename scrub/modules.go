package scrub

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// moduleRules holds the row of kernel modules.
func moduleRules() []Rule {
	return []Rule{
		{
			ID: "kernel-modules", Phase: Inspect, Groups: []string{"assets", "network"}, Verb: Report,
			Paths: []string{moduleFolder}, Owner: "the distribution's kernel packages",
			Why:         "releases split modules off their kernels: without those of kube-proxy and the VPC CNI the node joins, its rules fail one by one, and pods have no network",
			Regenerated: "the package manager", Source: "kops #18724, amazon-vpc-cni-k8s #1847",
			Find: modulesMissing,
		},
	}
}

// moduleFolder has a folder for each kernel; a link's other end is the same.
const moduleFolder = "/lib/modules"

// nodeModules are what containerd, the kubelet, kube-proxy and the VPC CNI need
// of a node's kernel, each with its other names: as a rule names it, in older
// kernels, or in legacy iptables.
var nodeModules = [][]string{
	{"overlay"}, {"veth"}, {"br_netfilter"}, {"nf_conntrack"}, {"nf_nat"},
	{"nft_compat", "iptable_nat"},
	{"xt_MASQUERADE", "ipt_MASQUERADE"}, {"xt_addrtype"}, {"xt_comment"}, {"xt_connmark"}, {"xt_conntrack"},
	{"xt_mark"}, {"xt_nat"}, {"xt_statistic"}, {"xt_tcpudp"},
}

// modulesMissing reports what the kernel that the image boots lacks. A machine
// without kernels, a container, uses its host's.
func modulesMissing(_ context.Context, h *host.Host) (plan.Answer, error) {
	if node, err := isNode(h); err != nil || !node {
		return plan.Answer{}, err
	}
	kernel, have, err := bootedKernel(h)
	if err != nil || kernel == "" {
		return plan.Answer{}, err
	}
	var missing []string
	for _, names := range nodeModules {
		if !slices.ContainsFunc(names, func(name string) bool { return have[name] }) {
			missing = append(missing, names[0])
		}
	}
	if missing == nil {
		return plan.Answer{}, nil
	}
	return plan.Finds(path.Join(moduleFolder, kernel), fmt.Sprintf("this kernel has no %s: install the package that brings them, such as kernel-modules-extra; without them pods have no network", strings.Join(missing, ", "))), nil
}

// bootedKernel is the one that the boot loader's environment names, or the
// newest of those that are whole, with its modules and what is built in; empty
// where there is none.
func bootedKernel(h *host.Host) (kernel string, modules map[string]bool, err error) {
	saved, err := h.Content("/boot/grub2/grubenv")
	if err != nil {
		return "", nil, err
	}
	entry := savedEntry.FindSubmatch(saved)
	entries, err := afero.ReadDir(h.Files, moduleFolder)
	if isMissing(err) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dep, err := h.Content(path.Join(moduleFolder, e.Name(), "modules.dep"))
		if err != nil {
			return "", nil, err
		}
		named := entry != nil && strings.HasSuffix(string(entry[1]), "-"+e.Name())
		if len(dep) == 0 || !named && kernel != "" && slices.Compare(numbers(e.Name()), numbers(kernel)) < 0 {
			continue // what a removed kernel left, or an older one
		}
		builtin, err := h.Content(path.Join(moduleFolder, e.Name(), "modules.builtin"))
		if err != nil {
			return "", nil, err
		}
		kernel, modules = e.Name(), map[string]bool{}
		for line := range strings.Lines(string(dep) + "\n" + string(builtin)) {
			file, _, _ := strings.Cut(line, ":")
			name, _, _ := strings.Cut(path.Base(strings.TrimSpace(file)), ".ko")
			modules[strings.ReplaceAll(name, "-", "_")] = true
		}
		if named {
			break
		}
	}
	return kernel, modules, nil
}

// savedEntry is what grub starts: MACHINE-RELEASE, by the boot loader
// specification's file.
var savedEntry = regexp.MustCompile(`(?m)^saved_entry=(.+)$`)

var number = regexp.MustCompile(`[0-9]+`)

// numbers are those in a kernel's release, which order releases.
func numbers(release string) []int {
	var all []int
	for _, digits := range number.FindAllString(release, -1) {
		n, _ := strconv.Atoi(digits) // of a commit's hash, too large for a number: the largest
		all = append(all, n)
	}
	return all
}

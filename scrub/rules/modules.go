package rules

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// nodeModules are the kernel modules that containerd, the kubelet, kube-proxy
// and the VPC CNI need, each with its other names: in rules, in older kernels,
// or in legacy iptables.
var nodeModules = [][]string{
	{"overlay"}, {"veth"}, {"br_netfilter"}, {"nf_conntrack"}, {"nf_nat"},
	{"nft_compat", "iptable_nat"},
	{"xt_MASQUERADE", "ipt_MASQUERADE"}, {"xt_addrtype"}, {"xt_comment"}, {"xt_connmark"}, {"xt_conntrack"},
	{"xt_mark"}, {"xt_nat"}, {"xt_statistic"}, {"xt_tcpudp"},
}

// modulesMissing reports modules that the image's kernel lacks. A machine
// without a kernel is a container and uses the kernel of its host.
func modulesMissing(d *rule.Draft) {
	if !IsNode(d) {
		return
	}
	kernel, have := bootedKernel(d)
	if kernel == "" {
		return
	}
	var missing []string
	for _, names := range nodeModules {
		if !slices.ContainsFunc(names, func(name string) bool { return have[name] }) {
			missing = append(missing, names[0])
		}
	}
	if missing != nil {
		d.Find(path.Join(d.Paths[0], kernel), fmt.Sprintf("this kernel lacks the modules %s: install the package that "+
			"contains them, such as kernel-modules-extra; without them pods have no network",
			strings.Join(missing, ", ")))
	}
}

// bootedKernel returns the kernel that the boot loader's environment names, or
// the newest complete one, with its modules and built-in modules. The name is
// empty if there is no kernel.
func bootedKernel(d *rule.Draft) (kernel string, modules map[string]bool) {
	entry := savedEntry.FindSubmatch(d.Content("/boot/grub2/grubenv"))
	entries, err := afero.ReadDir(d.Host.Files, d.Paths[0])
	if rule.IsMissing(err) || d.Failed(err) {
		return "", nil
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dep := d.Content(path.Join(d.Paths[0], e.Name(), "modules.dep"))
		named := entry != nil && strings.HasSuffix(string(entry[1]), "-"+e.Name())
		if len(dep) == 0 || !named && kernel != "" && slices.Compare(numbers(e.Name()), numbers(kernel)) < 0 {
			continue // remains of a removed kernel, or an older kernel
		}
		builtin := d.Content(path.Join(d.Paths[0], e.Name(), "modules.builtin"))
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
	return kernel, modules
}

// savedEntry is the entry that GRUB starts: MACHINE-RELEASE, the name of a file
// of the boot loader specification.
var savedEntry = regexp.MustCompile(`(?m)^saved_entry=(.+)$`)

var number = regexp.MustCompile(`[0-9]+`)

// numbers returns the numbers in a kernel release, by which releases are
// sorted.
func numbers(release string) []int {
	var all []int
	for _, digits := range number.FindAllString(release, -1) {
		n, _ := strconv.Atoi(digits) // digits of a commit hash may be too many: Atoi returns the largest number
		all = append(all, n)
	}
	return all
}

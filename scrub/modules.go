package scrub

import (
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func moduleRules() []Rule {
	return []Rule{
		{
			ID: "kernel-modules", Phase: Inspect, Groups: []string{"assets", "network"}, Verb: Report, ofNodes: true,
			Paths: []string{moduleFolder}, Owner: "the distribution's kernel packages",
			Why:         "without the kernel modules of kube-proxy and the VPC CNI the node joins, but its pods have no network; some releases have them in a separate package",
			Regenerated: "the package manager", Source: "kops #18724, amazon-vpc-cni-k8s #1847",
			Find: modulesMissing,
		},
	}
}

// moduleFolder has a folder for each kernel, possibly behind a link.
const moduleFolder = "/lib/modules"

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
	return plan.Finds(path.Join(moduleFolder, kernel), fmt.Sprintf("this kernel lacks the modules %s: install the package that contains them, such as kernel-modules-extra; without them pods have no network", strings.Join(missing, ", "))), nil
}

// bootedKernel returns the kernel that the boot loader's environment names, or
// the newest complete one, with its modules and built-in modules. The name is
// empty if there is no kernel.
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
			continue // remains of a removed kernel, or an older kernel
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

func sysctlRules() []Rule {
	return []Rule{
		{
			ID: "kernel-settings", Phase: Inspect, Groups: []string{"assets", "network"}, Verb: Report, ofNodes: true,
			Paths: []string{"/etc/sysctl.d/*.conf", "/usr/lib/sysctl.d/*.conf"}, Owner: "hardened base images, administrators",
			Why:         "files that systemd reads later override the settings that the kubelet and pods need; hardening, for example, turns forwarding off",
			Regenerated: "nothing", Source: "sysctl.d(5), CIS benchmarks' net.ipv4.ip_forward",
			Find: sysctlsAgainst,
		},
	}
}

// nodeSettings are the kernel settings that every node needs, and what happens
// if a file sets another value.
var nodeSettings = map[string]struct{ value, otherwise string }{
	"kernel.panic":                       {"10", "a kubelet that protects kernel defaults does not start"},
	"kernel.panic_on_oops":               {"1", "a kubelet that protects kernel defaults does not start"},
	"vm.overcommit_memory":               {"1", "a kubelet that protects kernel defaults does not start"},
	"net.ipv4.ip_forward":                {"1", "pods have no network"},
	"net.ipv4.conf.all.forwarding":       {"1", "pods have no network"},
	"net.bridge.bridge-nf-call-iptables": {"1", "services cannot be reached from pods behind bridges"},
}

// sysctlFolders are the folders of systemd-sysctl. A file hides files of the
// same name in later folders (sysctl.d(5)).
var sysctlFolders = []string{"/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"}

// setting is the last line that sets a kernel setting.
type setting struct {
	file  string
	line  int
	value string
}

// sysctlsAgainst reports files that set values at boot with which no node
// works, as hardening does.
func sysctlsAgainst(_ context.Context, h *host.Host) (plan.Answer, error) {
	if node, err := isNode(h); err != nil || !node {
		return plan.Answer{}, err
	}
	last, err := sysctls(h)
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, name := range slices.Sorted(maps.Keys(nodeSettings)) {
		want := nodeSettings[name]
		if s, set := last[name]; set && s.value != want.value {
			answer.Find(s.file, fmt.Sprintf("line %d sets %s = %s, and no later file sets %s: %s", s.line, name, s.value, want.value, want.otherwise))
		}
	}
	return answer, nil
}

// sysctls returns what systemd-sysctl sets at boot, by name.
func sysctls(h *host.Host) (map[string]setting, error) {
	files := map[string]string{} // of the first folder, by name
	for _, dir := range sysctlFolders {
		entries, err := afero.ReadDir(h.Files, dir)
		if isMissing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if _, hidden := files[e.Name()]; !hidden && path.Ext(e.Name()) == ".conf" {
				files[e.Name()] = path.Join(dir, e.Name())
			}
		}
	}
	last := map[string]setting{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := h.Content(files[name])
		if err != nil {
			return nil, err
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			line = strings.TrimPrefix(strings.TrimSpace(line), "-")
			key, value, set := strings.Cut(line, "=")
			if !set || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
				continue
			}
			last[dotted(strings.TrimSpace(key))] = setting{files[name], number, strings.TrimSpace(value)}
		}
	}
	// If a setting has two names, the later line wins.
	if one, all := last["net.ipv4.ip_forward"], last["net.ipv4.conf.all.forwarding"]; one.file != "" && all.file != "" {
		if later(one, all) {
			delete(last, "net.ipv4.conf.all.forwarding")
		} else {
			delete(last, "net.ipv4.ip_forward")
		}
	}
	return last, nil
}

func later(a, b setting) bool {
	if a.file == b.file {
		return a.line > b.line
	}
	return path.Base(a.file) > path.Base(b.file)
}

// dotted returns a name as sysctl prints it. In a name with slashes, dots are
// part of the name of an interface.
func dotted(name string) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		return strings.NewReplacer("/", ".", ".", "/").Replace(name)
	}
	return name
}

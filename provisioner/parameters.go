package provisioner

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// number is a kernel parameter with whole numbers, and the values that the kernel
// accepts (https://docs.kernel.org/admin-guide/sysctl/).
type number struct {
	name      string // * matches one component
	low, high int64
	count     int // how many numbers, separated by blanks
}

// The range of an int in the kernel.
const (
	lowInt  = math.MinInt32
	highInt = math.MaxInt32
)

// numbers are parameters that images set. The kernel would refuse other values at
// boot, where no person sees the error.
var numbers = []number{
	{"kernel.panic", lowInt, highInt, 1}, {"kernel.panic_on_oops", 0, 1, 1}, {"kernel.hung_task_panic", 0, 1, 1}, {"kernel.softlockup_panic", 0, 1, 1},
	{"kernel.pid_max", 301, 1 << 22, 1}, {"kernel.threads-max", 20, highInt, 1}, {"kernel.sysrq", 0, 511, 1}, {"kernel.modules_disabled", 0, 1, 1},
	{"kernel.keys.root_maxkeys", 0, highInt, 1}, {"kernel.keys.root_maxbytes", 0, highInt, 1}, {"kernel.keys.maxkeys", 0, highInt, 1}, {"kernel.keys.maxbytes", 0, highInt, 1},
	{"kernel.kptr_restrict", 0, 2, 1}, {"kernel.dmesg_restrict", 0, 1, 1}, {"kernel.randomize_va_space", 0, 2, 1}, {"kernel.yama.ptrace_scope", 0, 3, 1},
	{"kernel.unprivileged_bpf_disabled", 0, 2, 1}, {"kernel.unprivileged_userns_clone", 0, 1, 1}, {"kernel.perf_event_paranoid", lowInt, highInt, 1},
	{"vm.overcommit_memory", 0, 2, 1}, {"vm.overcommit_ratio", 0, highInt, 1}, {"vm.panic_on_oom", 0, 2, 1}, {"vm.swappiness", 0, 200, 1}, {"vm.max_map_count", 0, highInt, 1},
	{"vm.nr_hugepages", 0, math.MaxInt64, 1}, {"vm.nr_overcommit_hugepages", 0, math.MaxInt64, 1}, {"vm.min_free_kbytes", 0, highInt, 1},
	{"vm.dirty_ratio", 0, 100, 1}, {"vm.dirty_background_ratio", 0, 100, 1}, {"vm.vfs_cache_pressure", 0, highInt, 1}, {"vm.zone_reclaim_mode", 0, 7, 1},
	{"fs.file-max", 0, math.MaxInt64, 1}, {"fs.nr_open", 8, highInt, 1}, {"fs.aio-max-nr", 0, math.MaxInt64, 1}, {"fs.suid_dumpable", 0, 2, 1},
	{"fs.inotify.max_user_instances", 0, highInt, 1}, {"fs.inotify.max_user_watches", 0, highInt, 1}, {"fs.inotify.max_queued_events", 0, highInt, 1},
	{"fs.protected_hardlinks", 0, 1, 1}, {"fs.protected_symlinks", 0, 1, 1}, {"fs.protected_fifos", 0, 2, 1}, {"fs.protected_regular", 0, 2, 1},
	{"user.max_user_namespaces", 0, highInt, 1},
	{"net.core.somaxconn", 0, highInt, 1}, {"net.core.netdev_max_backlog", 0, highInt, 1}, {"net.core.rmem_max", 0, highInt, 1}, {"net.core.wmem_max", 0, highInt, 1},
	{"net.ipv4.ip_forward", 0, 1, 1}, {"net.ipv4.conf.*.forwarding", 0, 1, 1}, {"net.ipv6.conf.*.forwarding", 0, 2, 1}, {"net.ipv6.conf.*.disable_ipv6", 0, 1, 1},
	{"net.ipv4.conf.*.rp_filter", 0, 2, 1}, {"net.ipv4.conf.*.accept_redirects", 0, 1, 1}, {"net.ipv4.conf.*.send_redirects", 0, 1, 1},
	{"net.ipv4.conf.*.accept_source_route", 0, 1, 1}, {"net.ipv4.conf.*.log_martians", 0, 1, 1}, {"net.ipv4.tcp_syncookies", 0, 2, 1},
	{"net.ipv4.tcp_max_syn_backlog", 0, highInt, 1}, {"net.ipv4.tcp_fin_timeout", 0, highInt, 1}, {"net.ipv4.tcp_keepalive_time", 1, 32767, 1}, {"net.ipv4.tcp_tw_reuse", 0, 2, 1},
	{"net.ipv4.tcp_rmem", 1, highInt, 3}, {"net.ipv4.tcp_wmem", 1, highInt, 3}, {"net.ipv4.ip_local_port_range", 1, 65535, 2},
	{"net.ipv4.neigh.*.gc_thresh1", lowInt, highInt, 1}, {"net.ipv4.neigh.*.gc_thresh2", lowInt, highInt, 1}, {"net.ipv4.neigh.*.gc_thresh3", lowInt, highInt, 1},
	{"net.netfilter.nf_conntrack_max", 0, highInt, 1},
	{"net.bridge.bridge-nf-call-iptables", 0, 1, 1}, {"net.bridge.bridge-nf-call-ip6tables", 0, 1, 1}, {"net.bridge.bridge-nf-call-arptables", 0, 1, 1},
}

// need is a parameter's range on a working node.
type need struct {
	name        string // * matches one component
	least, most int64
	why         string
}

const (
	whyProtected = "the kubelet, whose configuration has protectKernelDefaults, does not start"
	whyForwarded = "pods have no network"
)

// needs are the parameters that a node depends on. Those that the kubelet protects
// are setupKernelTunables in pkg/kubelet/cm/container_manager_linux.go.
var needs = []need{
	{"kernel.panic", 10, 10, whyProtected}, {"kernel.panic_on_oops", 1, 1, whyProtected}, {"vm.overcommit_memory", 1, 1, whyProtected}, {"vm.panic_on_oom", 0, 0, whyProtected},
	{"kernel.keys.root_maxkeys", 1_000_000, 1_000_000, whyProtected}, {"kernel.keys.root_maxbytes", 25_000_000, 25_000_000, whyProtected},
	{"net.ipv4.ip_forward", 1, 1, whyForwarded}, {"net.ipv4.conf.*.forwarding", 1, 1, whyForwarded},
	{"net.bridge.bridge-nf-call-iptables", 1, 1, "pods behind bridges cannot reach services"},
	{"net.bridge.bridge-nf-call-ip6tables", 1, 1, "pods behind bridges cannot reach services"},
	{"kernel.modules_disabled", 0, 0, "kube-proxy and volumes could not load their modules"},
	// The minimum is below the kernel's defaults. A kubelet watches every pod's
	// files.
	{"fs.inotify.max_user_instances", 128, highInt, "the kubelet and containerd could not watch files"},
	{"fs.inotify.max_user_watches", 8192, highInt, "the kubelet and containerd could not watch files"},
	{"fs.file-max", 65536, math.MaxInt64, "containerd and the pods could not open their files"},
	{"kernel.pid_max", 32768, 1 << 22, "the pods' processes could not be started"},
	{"kernel.threads-max", 32768, highInt, "the pods' processes could not be started"},
}

// reserved is the parameter with the ports that no connection may use.
const reserved = "net.ipv4.ip_local_reserved_ports"

// numberForm is how the kernel reads a number: decimal, octal or hexadecimal.
var numberForm = regexp.MustCompile(`^-?(0|0[xX][0-9a-fA-F]+|0[0-7]+|[1-9][0-9]*)$`)

// isParameter says whether a name matches a row's name.
func isParameter(row, name string) bool {
	rows, parts := strings.Split(row, "."), strings.Split(name, ".")
	if len(rows) != len(parts) {
		return false
	}
	for i, part := range rows {
		if part != "*" && part != parts[i] {
			return false
		}
	}
	return true
}

// checkParameter refuses a value that a parameter cannot have, and a value with
// which no node works. The kernel judges parameters without a row.
func checkParameter(name, value string) error {
	for _, n := range numbers {
		lower := strings.ToLower(name)
		if !isParameter(n.name, lower) {
			continue
		}
		if !isParameter(n.name, name) {
			return fmt.Errorf("has no effect, because the kernel's names are in lower case: write %s", lower)
		}
		got, err := n.read(value)
		if err != nil {
			return err
		}
		if n.count == 1 {
			return checkNeed(name, got[0])
		}
		if n.count == 2 && got[0] > got[1] {
			return errors.New("ends before it begins")
		}
	}
	if name == reserved {
		return checkReserved(value)
	}
	return nil
}

func (n number) read(value string) ([]int64, error) {
	fields := strings.Fields(value)
	var got []int64
	for _, field := range fields {
		v, err := strconv.ParseInt(field, 0, 64)
		if !numberForm.MatchString(field) || err != nil || v < n.low || v > n.high {
			fields = nil
		}
		got = append(got, v)
	}
	what := "a whole number"
	if n.count > 1 {
		what = fmt.Sprintf("%d whole numbers", n.count)
	}
	if len(fields) != n.count {
		return nil, fmt.Errorf("is not a valid value: the parameter takes %s from %d to %d", what, n.low, n.high)
	}
	return got, nil
}

// checkNeed refuses a value with which no node works.
func checkNeed(name string, value int64) error {
	for _, n := range needs {
		if !isParameter(n.name, name) || value >= n.least && value <= n.most {
			continue
		}
		wanted := strconv.FormatInt(n.least, 10)
		if n.most > n.least {
			wanted = "at least " + wanted
		}
		return fmt.Errorf("contradicts what a node needs, %s: %s", wanted, n.why)
	}
	return nil
}

// checkReserved makes sure that a list of reserved ports contains the node's own
// ports. Otherwise another program could take the kubelet's port.
func checkReserved(value string) error {
	has, err := ports(value)
	if err != nil {
		return err
	}
	own, err := ports(nodeSysctls()[reserved])
	if err != nil {
		return err
	}
	for _, port := range slices.Sorted(maps.Keys(own)) {
		if !has[port] {
			return fmt.Errorf("leaves out port %d, which the kubelet, kube-proxy or the VPC CNI listens on; add your ports to %s", port, nodeSysctls()[reserved])
		}
	}
	return nil
}

func ports(list string) (map[int]bool, error) {
	all := map[int]bool{}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err1 != nil || err2 != nil || from > to {
			return nil, errors.New("is not a list of ports and ranges such as 2703,9808-9809")
		}
		for port := from; port <= to; port++ {
			all[int(port)] = true
		}
	}
	return all, nil
}

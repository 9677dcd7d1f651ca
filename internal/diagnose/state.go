package diagnose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// stateFile is a kind of file that shows a cause without a log line.
type stateFile struct {
	// names are the ends of the files' names in folders and archives. Names from the top
	// folders of a machine are also read in image roots.
	names []string
	cause string
	// has matches a line that shows the cause, and lacks one without which a file does.
	has, lacks string
	// say matches a value of a kind that another file must not contradict.
	say, kind string
}

var (
	kubeconfigs  = []string{"/var/lib/kubelet/kubeconfig", "/kubelet/kubeconfig.yaml"}
	resolvConfs  = []string{"/etc/resolv.conf", "/networking/resolv.conf"}
	kubeletFiles = []string{"/etc/kubernetes/kubelet/config.json", "/etc/kubernetes/kubelet/kubelet-config.json",
		"/kubelet/config.json"}
	kubeletUnits = []string{"/etc/systemd/system/kubelet.service", "/usr/lib/systemd/system/kubelet.service",
		"/etc/systemd/system/kubelet.service.d/10-kubelet-args.conf", "/etc/eks/kubelet/environment",
		"/etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf", "/kubelet/kubelet_service.txt"}
	containerdFiles = []string{"/etc/containerd/config.toml", "/containerd/containerd-config.txt"}
	userDataFiles   = []string{"/var/lib/cloud/instance/user-data.txt"}
	instanceFiles   = []string{"/var/lib/cloud/data/instance-id", "/system/instance-id.txt"}
	mountFiles      = []string{"/storage/mounts.txt", "/sos_commands/filesys/mount_-l", "/proc/mounts"}
	diskFiles       = []string{"/storage/mounts.txt", "/storage/inodes.txt", "/sos_commands/filesys/df_-al_-x_autofs"}
	addressFiles    = []string{"/networking/ifconfig.txt", "/sos_commands/networking/ip_-o_addr"}
	routeFiles      = []string{"/networking/iproute.txt", "/sos_commands/networking/ip_route_show_table_all"}
	clockFiles      = []string{"/sos_commands/systemd/timedatectl", "/sos_commands/chrony/chronyc_tracking",
		"/sos_commands/chrony/chronyc_-n_tracking"}
)

// stateFiles are what files say. The names are those of machines, of the EKS log
// collector and of sosreport.
var stateFiles = []stateFile{
	{names: kubeconfigs, cause: "template", has: `server: *\S*MASTER_ENDPOINT`},
	{names: kubeconfigs, cause: "no-kubeconfig", lacks: `\bserver: *\S`},
	{names: kubeconfigs, cause: "captured-node", kind: "endpoint", say: `\bserver: *"?(https://[^/"\s]+)`},
	{names: userDataFiles, cause: "captured-node", kind: "endpoint", say: `(?:apiServerEndpoint:|` +
		`--apiserver-endpoint[= ]) *["']?(https://[^/"'\s]+)`},
	{names: kubeletFiles, cause: "captured-node", kind: "instance", say: `"?providerID"?: *"?aws:///[^/"]*/(i-[0-9a-z-]+)`},
	{names: instanceFiles, cause: "captured-node", kind: "instance", say: `^(i-[0-9a-z-]+)$`},
	{names: resolvConfs, cause: "dns", lacks: `^nameserver\s+\S`},
	{names: addressFiles, cause: "node-network", lacks: `inet (addr:)?([2-9]|1[013-9]|12[^7])|inet6 (addr: )?(2|fd)`},
	{names: routeFiles, cause: "node-network", lacks: `^(default|0\.0\.0\.0/0)\b`},
	{names: kubeletFiles, cause: "cgroup-driver", say: `"?cgroupDriver"?: *"?(systemd|cgroupfs)`},
	{names: containerdFiles, cause: "cgroup-driver", say: `^\s*SystemdCgroup *= *(true|false)`},
	{names: containerdFiles, cause: "cri-plugin", has: `^\s*disabled_plugins *= *\[[^\]]*"(io\.containerd\.(grpc|` +
		`cri)\.v1\.)?(cri|runtime)"`},
	{names: kubeletUnits, cause: "runtime-endpoint", has: `--container-runtime-endpoint[= ]\S*dockershim\.sock`},
	{names: kubeletUnits, cause: "kubelet-flags", has: `--(cloud-provider[= ]aws|network-plugin|` +
		`container-runtime[= ]|cni-bin-dir|cni-conf-dir)\b`},
	{names: mountFiles, cause: "disk-errors", has: ` (on )?/var(/lib(/kubelet|/containerd)?)? (type )?(ext4|xfs|` +
		`btrfs) \(?ro[, ]`},
	{names: mountFiles, cause: "file-system", has: ` (on )?/var/lib/(kubelet|containerd) (type )?(nfs4?|tmpfs|` +
		`overlay|zfs|vfat) `},
	{names: diskFiles, cause: "disk-full", has: `^/dev/([^l]|l[^o])\S* .* 100% +/(|var\S*|local\S*)$`},
	{names: []string{"/proc/swaps"}, cause: "swap", has: `^/\S+\s+(partition|file)\s`},
	{names: []string{"/sysctls/sysctl_all.txt"}, cause: "kernel-settings", has: `^net\.ipv4\.ip_forward = 0`},
	{names: clockFiles, cause: "clock", has: `System clock synchronized: no|Leap status +: Not synchronised`},
}

// comments are how lines of these files begin that say nothing.
const comments = "#;"

// stateMost is how much of a file with state is read, in bytes.
const stateMost = 1 << 20

// patternOf compiles the expressions of stateFiles once.
var patternOf = sync.OnceValue(func() map[string]*regexp.Regexp {
	all := map[string]*regexp.Regexp{}
	for _, f := range stateFiles {
		for _, text := range []string{f.has, f.lacks, f.say} {
			all[text] = regexp.MustCompile(text)
		}
	}
	return all
})

// stated is what a file or a setting of the machine shows.
type stated struct{ cause, fact string }

// state adds what a file shows about the machine.
func (s *Search) state(cause, format string, args ...any) {
	s.stated = append(s.stated, stated{cause, show.Line(fmt.Sprintf(format, args...))})
}

// isState says whether a file shows more than its log lines.
func isState(name string) bool {
	return slices.ContainsFunc(stateFiles, func(f stateFile) bool { return f.is(name) })
}

func (f stateFile) is(name string) bool {
	return slices.ContainsFunc(f.names, func(end string) bool { return strings.HasSuffix("/"+name, end) })
}

// look reads a file that isState. Its shown name is for people.
func (s *Search) look(shown, name, text string) {
	for _, f := range stateFiles {
		if !f.is(name) {
			continue
		}
		missing := f.lacks != ""
		for number, line := range strings.Split(text, "\n") {
			if line == "" || strings.ContainsRune(comments, rune(strings.TrimSpace(line + "#")[0])) {
				continue
			}
			switch {
			case f.lacks != "":
				missing = missing && !patternOf()[f.lacks].MatchString(line)
			case f.has != "" && patternOf()[f.has].MatchString(line):
				s.state(f.cause, "%s:%d: %s", shown, number+1, shorten(line, 0))
			case f.say != "":
				if m := patternOf()[f.say].FindStringSubmatch(line); m != nil {
					s.compare(f.cause, f.kind, fmt.Sprintf("%s:%d", shown, number+1), m[1])
				}
			}
		}
		if missing {
			s.state(f.cause, "%s: no line has what matches %q", shown, f.lacks)
		}
	}
	if (stateFile{names: userDataFiles}).is(name) {
		s.lookAtUserData(shown, text)
	}
}

// sayings are values that mean the same.
var sayings = map[string]string{"true": "systemd", "false": "cgroupfs"}

// compare keeps the first value of a kind, and states the cause if a later one differs.
func (s *Search) compare(cause, kind, place, value string) {
	if other := sayings[value]; other != "" {
		value = other
	}
	before, known := s.said[cause+kind]
	switch {
	case !known:
		s.said[cause+kind] = [2]string{place, value}
	case !strings.EqualFold(before[1], value):
		s.state(cause, "%s says %s, and %s says %s", before[0], before[1], place, value)
	}
}

// UserData checks user data, and returns its family and its faults. Text of no known form
// is another program's, and an error.
type UserData func(text []byte) (family string, faults []string, err error)

// WithUserData makes the search check user data. The check is not part of this package,
// because the agent does not have its libraries.
func (s *Search) WithUserData(check UserData) *Search {
	s.checkUserData = check
	return s
}

func (s *Search) lookAtUserData(shown, text string) {
	if s.checkUserData == nil {
		return
	}
	family, faults, err := s.checkUserData([]byte(text))
	if err != nil {
		return
	}
	cause := "node-config"
	switch own := family + "-settings"; {
	case family == "al2":
		cause = "arguments"
	case slices.ContainsFunc(s.rules, func(r Rule) bool { return r.ID == own }):
		cause = own
	}
	for _, fault := range faults {
		s.state(cause, "%s:%s", shown, fault)
	}
}

// Machine adds what a machine's settings and files show: the rows of the audit about
// settings that break nodes, and stateFiles. shown is what stands before paths.
func (s *Search) Machine(ctx context.Context, h *host.Host, shown string) error {
	var errs []error
	for _, r := range scrub.Table() {
		if r.Breaks == nil || r.Breaks.Note {
			continue
		}
		d := &scrub.Draft{Ctx: ctx, Host: h}
		r.Plan(d, nil)
		if d.Err != nil {
			errs = append(errs, fmt.Errorf("looking for %s: %w", r.ID, d.Err))
		}
		for _, f := range d.Answer.Findings {
			s.state(r.Breaks.Cause, "%s: %s: %s", r.ID, shown+f.Target, f.Reason)
		}
	}
	read := map[string]bool{}
	for _, f := range stateFiles {
		for _, name := range f.names {
			if read[name] || !slices.ContainsFunc([]string{"/etc/", "/var/", "/usr/"}, func(top string) bool {
				return strings.HasPrefix(name, top)
			}) {
				continue
			}
			read[name] = true
			text, err := h.Content(name)
			if err != nil {
				errs = append(errs, fmt.Errorf("looking at %s: %w", name, err))
			}
			if len(text) > 0 {
				s.look(shown+name, name, string(text[:min(len(text), stateMost)]))
			}
		}
	}
	return errors.Join(errs...)
}

// stateIn reads a file of a folder or an archive that isState, and returns its content
// again for the search of its lines.
func (s *Search) stateIn(from source, in io.Reader) (io.Reader, error) {
	text, err := io.ReadAll(io.LimitReader(in, stateMost))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", from.name, err)
	}
	if len(text) > 0 {
		s.look(show.Line(from.name), from.inner, string(text))
	}
	return io.MultiReader(bytes.NewReader(text), in), nil
}

// withState adds to findings what the machine's files and settings show. They blame
// nothing on a node that joined.
func (s *Search) withState(list []Finding) []Finding {
	for _, one := range s.stated {
		rule := slices.IndexFunc(s.rules, func(r Rule) bool { return r.ID == one.cause })
		i := slices.IndexFunc(list, func(f Finding) bool { return f.Rule.ID == one.cause })
		if i < 0 {
			i, list = len(list), append(list, Finding{Rule: s.rules[rule], proven: true, state: true})
		}
		if !slices.Contains(list[i].Evidence, one.fact) {
			list[i].add(func() string { return one.fact })
		}
	}
	return list
}

package leftover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/kubelet"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// damaged reports a checkpoint that is not valid JSON, for example after a power
// cut. The kubelet does not start with such a file.
func damaged(h *host.Host, name string) (string, error) {
	text, err := h.Content(name)
	if err != nil || json.Valid(text) {
		return "", err
	}
	return "the file is damaged, and the kubelet does not start with it", nil
}

// otherPolicy reports a CPU or memory manager's checkpoint that is damaged, has a
// policy that differs from the configured one, or lists other processors than the
// machine has. The processors differ after a change of the instance type.
func (s State) otherPolicy(h *host.Host, name string) (string, error) {
	if why, err := damaged(h, name); err != nil || why != "" {
		return why, err
	}
	setting, want := "cpuManagerPolicy", "none"
	if strings.HasSuffix(name, "memory_manager_state") {
		setting, want = "memoryManagerPolicy", "None"
	}
	for _, config := range []map[string]any{s.Node.Kubelet.Template, s.Node.Kubelet.Config} {
		if given, ok := config[setting].(string); ok {
			want = given
		}
	}
	if kubelet.FlagOf(setting, nodeconfig.Split(strings.Join(s.Node.Kubelet.Flags, " "))) >= 0 {
		return "", nil // a flag decides
	}
	text, err := h.Content(name)
	if err != nil {
		return "", err
	}
	var state struct {
		Policy string `json:"policyName"`
	}
	if json.Unmarshal(text, &state) != nil || !strings.EqualFold(state.Policy, want) {
		return "the kubelet does not start with the state of a different policy", nil
	}
	if setting != "cpuManagerPolicy" || state.Policy != "static" || s.reservesStrictly() {
		return "", nil
	}
	return otherProcessors(h, text)
}

// reservesStrictly reports whether the CPU manager's state leaves out reserved
// processors. The state then does not list all processors of the machine.
func (s State) reservesStrictly() bool {
	const option = "strict-cpu-reservation"
	for _, config := range []map[string]any{s.Node.Kubelet.Template, s.Node.Kubelet.Config} {
		if options, ok := config["cpuManagerPolicyOptions"].(map[string]any); ok && options[option] != nil {
			return true
		}
	}
	return strings.Contains(strings.Join(s.Node.Kubelet.Flags, " "), option)
}

// otherProcessors reports a static CPU manager state whose processors differ from
// those of the machine.
func otherProcessors(h *host.Host, text []byte) (string, error) {
	online, err := h.Content(machine.OnlineCPUs)
	if err != nil || online == nil {
		return "", err
	}
	var state struct {
		Default string                       `json:"defaultCpuSet"`
		Entries map[string]map[string]string `json:"entries"`
	}
	if json.Unmarshal(text, &state) != nil {
		return "", nil // unknown format; the kubelet reports its own errors
	}
	has, divided := machine.CPUSet(string(online)), machine.CPUSet(state.Default)
	for _, containers := range state.Entries {
		for _, list := range containers {
			maps.Copy(divided, machine.CPUSet(list))
		}
	}
	if maps.Equal(has, divided) {
		return "", nil
	}
	return fmt.Sprintf("the file divides %d processors among pods, but the machine has processors %s; the kubelet "+
		"does not start with this file", len(divided), strings.TrimSpace(string(online))), nil
}

// strayKubeconfig reports a kubeconfig that the kubelet of an Outpost did not write
// itself: the template, or the kubeconfig of another cluster.
func (s State) strayKubeconfig(h *host.Host, name string) (string, error) {
	if !s.Node.Cluster.Outpost {
		return "", nil
	}
	text, err := h.Content(name)
	if err != nil || serverOf(text) == s.Node.Cluster.Endpoint && !bytes.HasPrefix(text, []byte(render.Mark)) {
		return "", err
	}
	return "the kubelet of an Outpost writes its own kubeconfig", nil
}

// dropInForm matches the drop-ins that Amazon Linux 2's bootstrap.sh writes.
var dropInForm = show.Regexp(`^\[Service\]\nEnvironment='(KUBELET_ARGS|KUBELET_EXTRA_ARGS)=.*'\n*$`)

// notAmazonsDropIn reports whether to keep a drop-in whose name Amazon Linux 2's
// bootstrap.sh uses. The drop-in stays if its form differs, or if it was written
// after this boot began, because user data wrote it then.
func notAmazonsDropIn(h *host.Host, name string) (bool, error) {
	text, err := h.Content(name)
	if err != nil || !dropInForm().Match(text) {
		return true, err
	}
	booted, known, err := bootTime(h)
	if err != nil || !known {
		return false, err
	}
	st, err := h.Files.Stat(name)
	return err == nil && st.ModTime().After(booted), err
}

// bootTime returns the start time of process 1, also in a container, and false when
// the time is unknown.
func bootTime(h *host.Host) (time.Time, bool, error) {
	uptime, err := h.Content("/proc/uptime")
	if err != nil {
		return time.Time{}, false, err
	}
	first, err := h.Content("/proc/1/stat")
	if err != nil {
		return time.Time{}, false, err
	}
	// uptime is in seconds since the kernel started. The twentieth field after the
	// process name is the process's start, in hundredths of a second since the
	// kernel started (proc(5)).
	up, _, _ := strings.Cut(string(uptime), " ")
	kernel, err := strconv.ParseFloat(up, 64)
	fields := strings.Fields(string(first[bytes.LastIndexByte(first, ')')+1:]))
	if err != nil || len(fields) < 20 {
		return time.Time{}, false, nil
	}
	since, err := strconv.ParseFloat(fields[19], 64)
	if err != nil {
		return time.Time{}, false, nil
	}
	age := kernel - since/100
	return h.Now().Add(-time.Duration(age * float64(time.Second))), true, nil
}

// argumentsOfInit is the variable with which a kubelet.service passes first boot's
// arguments to the kubelet.
const argumentsOfInit = "$NODEADM_KUBELET_ARGS"

// amazonsKubelet reports the kubelet.service of Amazon Linux 2's bootstrap.sh in
// /etc. This unit overrides the image's unit and starts the kubelet without first
// boot's arguments.
func amazonsKubelet(h *host.Host, name string) (string, error) {
	text, regular, err := regularContent(h, name)
	if err != nil || !regular || bytes.Contains(text, []byte(argumentsOfInit)) {
		return "", err
	}
	own, err := hiddenUnit(h)
	if err != nil || own == "" {
		return "", err
	}
	original, err := h.Content(amazonFolder + "/kubelet-containerd.service")
	if err != nil {
		return "", err
	}
	words := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\\\n", " ")), " ")
	form := strings.Contains(words, "--config "+templates.KubeletConfig+" ") &&
		strings.Contains(words, "--kubeconfig "+templates.Kubeconfig+" ") &&
		strings.Contains(words, " $KUBELET_ARGS $KUBELET_EXTRA_ARGS")
	if !form && (original == nil || !bytes.Equal(text, original)) {
		return "", nil
	}
	return "Amazon Linux 2's bootstrap.sh copied this unit, which overrides " + own, nil
}

// hiddenUnit returns the path of the image's kubelet.service, which a unit in /etc
// overrides.
func hiddenUnit(h *host.Host) (string, error) {
	for _, folder := range []string{"/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"} {
		name := folder + "/" + kubeletUnit
		text, err := h.Content(name)
		if err != nil {
			return "", err
		}
		if bytes.Contains(text, []byte(argumentsOfInit)) {
			return name, nil
		}
	}
	return "", nil
}

// amazonsSandboxImage reports the unit that pulled the pause image for Amazon Linux
// 2's bootstrap.sh. The unit names the registry of an earlier region.
func amazonsSandboxImage(h *host.Host, name string) (string, error) {
	text, regular, err := regularContent(h, name)
	if err != nil || !regular || !bytes.Contains(text, []byte("ExecStart="+amazonFolder+"/pull-sandbox-image.sh")) {
		return "", err
	}
	return "Amazon Linux 2's bootstrap.sh copied this unit; first boot pulls the pause image without the unit", nil
}

// regularContent reads a regular file. It returns false for a link or a missing file.
func regularContent(h *host.Host, name string) ([]byte, bool, error) {
	st, err := h.Files.Lstat(name)
	if err != nil || !st.Mode().IsRegular() {
		return nil, false, err
	}
	text, err := h.Content(name)
	return text, true, err
}

// doubt is a setting in a unit or drop-in of the kubelet that overrides the node's
// user data.
type doubt struct{ setting, does string }

// doubtful lists the settings that override first boot's values. $KUBELET_ARGS and
// $KUBELET_EXTRA_ARGS come last on the kubelet's command line.
func doubtful() []doubt {
	const identity, file = "sets the node's identity", "reads a file that first boot does not write"
	return []doubt{
		{"--hostname-override", identity}, {"--node-ip", identity}, {"--provider-id", identity},
		{"--kubeconfig", file}, {"--bootstrap-kubeconfig", file}, {"--config", file},
		{"--node-labels", "sets node labels"}, {"--register-with-taints", "sets node taints"},
	}
}

// doubts returns findings for a unit and drop-ins of the kubelet that may be
// leftover state or a user's own files. These files stay, and the journal reports
// them. Files that the plan removes anyway are left out.
func doubts(h *host.Host, going []plan.Action) ([]plan.Finding, error) {
	names := []string{path.Join(systemUnits, kubeletUnit)}
	folder := path.Join(systemUnits, kubeletUnit+".d")
	entries, err := afero.ReadDir(h.Files, folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for drop-ins: %w", err)
	}
	for _, e := range entries {
		if path.Ext(e.Name()) == ".conf" {
			names = append(names, path.Join(folder, e.Name()))
		}
	}
	var found []plan.Finding
	for _, name := range names {
		if slices.ContainsFunc(going, func(a plan.Action) bool { return a.Target == name }) {
			continue
		}
		why, err := doubtOf(h, name)
		if err != nil {
			return nil, fmt.Errorf("looking at %s: %w", name, err)
		}
		if why != "" {
			found = append(found, plan.Finding{Target: name, Reason: why})
		}
	}
	return found, nil
}

// doubtOf describes how a unit or drop-in of the kubelet overrides first boot's
// values, or returns an empty text.
func doubtOf(h *host.Host, name string) (string, error) {
	if there, err := plan.IsThere(h, name); err != nil || !there {
		return "", err
	}
	text, regular, err := regularContent(h, name)
	if err != nil || !regular {
		return "", err
	}
	if own, err := render.IsOurs(h, name); err != nil || own {
		return "", err
	}
	lines := settings(text)
	starts := slices.IndexFunc(lines, func(l string) bool {
		_, command, ok := strings.Cut(l, "ExecStart=")
		return ok && strings.HasPrefix(l, "ExecStart=") && command != ""
	})
	if starts >= 0 && !strings.Contains(lines[starts], argumentsOfInit) {
		return "the unit starts the kubelet without " + argumentsOfInit +
			", with which first boot sets the cluster and the node; remove the file if this is not intended", nil
	}
	if path.Base(name) == kubeletUnit {
		return "", nil
	}
	for _, d := range doubtful() {
		if slices.ContainsFunc(lines, func(l string) bool { return sets(l, d.setting) }) {
			return "its " + d.setting + " " + d.does +
				", and overrides this node's value; remove the file if it is leftover state", nil
		}
	}
	return "", nil
}

// settings returns the effective lines of a unit file. Lines that a backslash
// continues are joined (systemd.syntax(7)).
func settings(text []byte) []string {
	var lines []string
	for line := range strings.Lines(string(bytes.ReplaceAll(text, []byte("\\\n"), []byte(" ")))) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != ';' {
			lines = append(lines, line)
		}
	}
	return lines
}

// sets reports whether a line contains the flag, with a value after "=" or a space.
func sets(line, flag string) bool {
	return slices.Contains(strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\"'=", r) }),
		flag)
}

package leftover

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
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
	if strings.Contains(strings.Join(s.Node.Kubelet.Flags, " "), "manager-policy") {
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
	online, err := h.Content("/sys/devices/system/cpu/online")
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
	machine, divided := cpuSet(string(online)), cpuSet(state.Default)
	for _, containers := range state.Entries {
		for _, list := range containers {
			maps.Copy(divided, cpuSet(list))
		}
	}
	if maps.Equal(machine, divided) {
		return "", nil
	}
	return fmt.Sprintf("the file divides %d processors among pods, but the machine has processors %s; the kubelet does not start with this file", len(divided), strings.TrimSpace(string(online))), nil
}

// cpuSet returns the processors in a list such as "0-3,8".
func cpuSet(list string) map[int]bool {
	set := map[int]bool{}
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		for n := from; err == nil && err2 == nil && n <= to && n < 1<<16; n++ {
			set[n] = true
		}
	}
	return set
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
var dropInForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\[Service\]\nEnvironment='(KUBELET_ARGS|KUBELET_EXTRA_ARGS)=.*'\n*$`)
})

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
		strings.Contains(words, "--kubeconfig "+templates.Kubeconfig+" ") && strings.Contains(words, " $KUBELET_ARGS $KUBELET_EXTRA_ARGS")
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

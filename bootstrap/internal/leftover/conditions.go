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

// damaged says that a checkpoint is no JSON, as after a power cut: the kubelet
// does not start with it.
func damaged(h *host.Host, name string) (string, error) {
	text, err := h.Content(name)
	if err != nil || json.Valid(text) {
		return "", err
	}
	return "it is damaged, and the kubelet does not start with it", nil
}

// otherPolicy says that a manager's checkpoint is damaged, of another policy
// than the one it will have, or of a machine with other processors: an instance
// may have been stopped and given another type.
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
		return "the kubelet does not start with the state of another policy", nil
	}
	if setting != "cpuManagerPolicy" || state.Policy != "static" || s.reservesStrictly() {
		return "", nil
	}
	return otherProcessors(h, text)
}

// reservesStrictly says whether reserved processors are kept out of the CPU
// manager's state, so that it does not have all of the machine's.
func (s State) reservesStrictly() bool {
	const option = "strict-cpu-reservation"
	for _, config := range []map[string]any{s.Node.Kubelet.Template, s.Node.Kubelet.Config} {
		if options, ok := config["cpuManagerPolicyOptions"].(map[string]any); ok && options[option] != nil {
			return true
		}
	}
	return strings.Contains(strings.Join(s.Node.Kubelet.Flags, " "), option)
}

// otherProcessors says that the CPU manager's static state divides other
// processors among pods than the machine has.
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
		return "", nil // of a kubelet that is not known; it will say so itself
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
	return fmt.Sprintf("it divides %d processors among pods, the machine has %s, and the kubelet does not start with it", len(divided), strings.TrimSpace(string(online))), nil
}

// cpuSet is what a list such as "0-3,8" names.
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

// strayKubeconfig says that the kubeconfig is not the one which the kubelet of
// an Outpost writes itself: it is another cluster's, or the template.
func (s State) strayKubeconfig(h *host.Host, name string) (string, error) {
	if !s.Node.Cluster.Outpost {
		return "", nil
	}
	text, err := h.Content(name)
	if err != nil || serverOf(text) == s.Node.Cluster.Endpoint && !bytes.HasPrefix(text, []byte(render.Mark)) {
		return "", err
	}
	return "the kubelet of an Outpost writes its own", nil
}

// dropInForm is how Amazon Linux 2's bootstrap.sh writes each of its drop-ins.
var dropInForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\[Service\]\nEnvironment='(KUBELET_ARGS|KUBELET_EXTRA_ARGS)=.*'\n*$`)
})

// notAmazonsDropIn spares a drop-in of a name that Amazon Linux 2's bootstrap.sh
// uses, which has another form, or which was written since this machine booted:
// that is user data's.
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

// bootTime is when the first process of the machine, or of the container that it
// is, started.
func bootTime(h *host.Host) (time.Time, bool, error) {
	uptime, err := h.Content("/proc/uptime")
	if err != nil {
		return time.Time{}, false, err
	}
	first, err := h.Content("/proc/1/stat")
	if err != nil {
		return time.Time{}, false, err
	}
	// Seconds since the kernel started; and, as the twentieth field after the
	// process's name, hundredths of a second between that and the process's
	// start (proc(5)).
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

// argumentsOfInit is how a kubelet.service passes on what a first boot writes.
const argumentsOfInit = "$NODEADM_KUBELET_ARGS"

// amazonsKubelet says that /etc has the kubelet.service of Amazon Linux 2's
// bootstrap.sh, which hides the image's own: it starts the kubelet without what
// first boot writes.
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
	return "Amazon Linux 2's bootstrap.sh copied it, and it hides " + own, nil
}

// hiddenUnit finds the image's own kubelet.service, which one in /etc hides.
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

// amazonsSandboxImage says that the unit is the one that pulled the pause image
// for Amazon Linux 2's bootstrap.sh: it names a former region's registry.
func amazonsSandboxImage(h *host.Host, name string) (string, error) {
	text, regular, err := regularContent(h, name)
	if err != nil || !regular || !bytes.Contains(text, []byte("ExecStart="+amazonFolder+"/pull-sandbox-image.sh")) {
		return "", err
	}
	return "Amazon Linux 2's bootstrap.sh copied it, and first boot has the pause image pulled itself", nil
}

// regularContent reads a file that is no link.
func regularContent(h *host.Host, name string) ([]byte, bool, error) {
	st, err := h.Files.Lstat(name)
	if err != nil || !st.Mode().IsRegular() {
		return nil, false, err
	}
	text, err := h.Content(name)
	return text, true, err
}

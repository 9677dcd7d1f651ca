package rules

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// contract says how an image without a manifest supports the bootstrap.sh
// contract.
type contract int

const (
	noContract    contract = iota
	knownTemplate          // a template of Amazon Linux 2 is there, and no script
	withScript             // its bootstrap script is there
)

// bootstrapScripts are the places of bootstrap.sh: Amazon Linux 2's own first,
// then those of people who copied it to another distribution.
var bootstrapScripts = []string{
	amazonScript, "/opt/bootstrap.sh", "/opt/*/bootstrap.sh", "/usr/bin/bootstrap.sh", "/usr/sbin/bootstrap.sh",
	"/usr/local/*/bootstrap.sh", "/usr/local/*/eks/bootstrap.sh", "/usr/share/eks/bootstrap.sh",
	"/usr/lib/eks/bootstrap.sh", "/usr/libexec/eks/bootstrap.sh",
}

const amazonScript = "/etc/eks/bootstrap.sh"

// scriptMost is how many bytes of a bootstrap script are read: Amazon's has
// 30 kB.
const scriptMost = 1 << 20

// bootstrapScript returns the script that fills in the templates, or "". At its
// usual place any script counts but that of Amazon Linux 2023, which only names
// nodeadm. Elsewhere a script must name a placeholder.
func bootstrapScript(d *rule.Draft) string {
	for _, name := range d.Known(bootstrapScripts...) {
		st := d.Stat(name)
		if st == nil || !st.Mode().IsRegular() || st.Size() > scriptMost && name != amazonScript {
			continue
		}
		if st.Size() > scriptMost { // a link to eksnode
			return name
		}
		text := d.Content(name)
		fills := bytes.Contains(text, []byte(endpointPlaceholder))
		if fills || d.Err == nil && name == amazonScript && !bytes.Contains(text, []byte("nodeadm")) {
			return name
		}
	}
	return ""
}

// contractOf finds out whether a bootstrap fills in templates on this machine:
// it has the script, or a file that turns back into a known template.
func contractOf(d *rule.Draft) contract {
	if bootstrapScript(d) != "" {
		return withScript
	}
	for _, t := range templates.All() {
		if current := d.Content(t.Path); current != nil && isKnown(t, current) {
			return knownTemplate
		}
	}
	return noContract
}

// isKnown reports whether a file turns back into a template that images of
// Amazon Linux 2 had.
func isKnown(t templates.Template, current []byte) bool {
	reverse, known := reverseKubeconfig, knownKubeconfig
	switch t.Path {
	case templates.KubeletConfig:
		reverse, known = reverseKubeletConfig, knownKubeletConfig
	case templates.ContainerdConfig:
		reverse, known = reverseContainerdConfig, knownContainerdConfig
	}
	back, err := reverse(current, t.Content)
	return err == nil && len(back.Unknown) == 0 && known(back.Content, t.Content)
}

// kubeconfig are the parts of a kubeconfig that templates have.
type kubeconfig struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Clusters   any
	Contexts   any
	Current    string `yaml:"current-context"`
	Users      []struct {
		Name string
		User struct {
			Exec tokenCommand
		}
	}
}

type tokenCommand struct {
	APIVersion string `yaml:"apiVersion"`
	Command    string
	Env        []map[string]string
	Args       []string
}

// knownKubeconfig reports whether a kubeconfig is a template of any year: only
// the command for tokens changed. nodeadm's has the same content, but begins as
// a document of its own.
func knownKubeconfig(text, template []byte) bool {
	have, ok := parseKubeconfig(text)
	want, _ := parseKubeconfig(template)
	if !ok || bytes.HasPrefix(bytes.TrimSpace(text), []byte("---")) {
		return false
	}
	exec := have.Users[0].User.Exec
	want.Users[0].User.Exec = exec
	a, errA := json.Marshal(have)
	b, errB := json.Marshal(want)
	return errA == nil && errB == nil && bytes.Equal(a, b) && exec.known()
}

func parseKubeconfig(text []byte) (kubeconfig, bool) {
	var k kubeconfig
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	return k, d.Decode(&k) == nil && len(k.Users) == 1
}

func (c tokenCommand) known() bool {
	version, group := strings.CutPrefix(c.APIVersion, "client.authentication.k8s.io/")
	if !group || !slices.Contains([]string{"v1alpha1", "v1beta1", "v1"}, version) {
		return false
	}
	for _, e := range c.Env {
		if len(e) != 2 || e["name"] != "AWS_STS_REGIONAL_ENDPOINTS" || e["value"] != "regional" {
			return false
		}
	}
	args := slices.Sorted(slices.Values(c.Args))
	switch c.Command[strings.LastIndexByte(c.Command, '/')+1:] {
	case "aws-iam-authenticator":
		return slices.Equal(args, []string{"--region", "-i", regionPlaceholder, clusterPlaceholder, "token"})
	case "aws":
		return slices.Equal(args,
			[]string{"--cluster-name", "--region", regionPlaceholder, clusterPlaceholder, "eks", "get-token"})
	}
	return false
}

// olderKubeletKeys has values of kubelet-config.json that only some years had.
var olderKubeletKeys = map[string][]string{
	"featureGates": {
		`{"RotateKubeletServerCertificate":true,"KubeletCredentialProviders":true}`,
		`{"RotateKubeletServerCertificate":true,"NodeSwap":false}`,
		`{"RotateKubeletServerCertificate":true,"CSIServiceAccountToken":true}`,
	},
	"eventRecordQPS":  {"0"},
	"failSwapOn":      {"false"},
	"tlsCipherSuites": {`["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]`},
}

// neededKubeletKeys are the keys that kubelet-config.json had in all years.
var neededKubeletKeys = []string{"kind", "apiVersion", "authentication", "authorization", "clusterDomain",
	"serverTLSBootstrap"}

// knownKubeletConfig reports whether each key of a configuration has the value
// that it had in some year.
func knownKubeletConfig(text, template []byte) bool {
	have, errHave := parseObject(text)
	want, errWant := parseObject(template)
	if errHave != nil || errWant != nil {
		return false
	}
	for _, key := range have.keys {
		value := have.values[key]
		now, known := want.values[key]
		if !(known && sameJSON(value, now)) &&
			!slices.ContainsFunc(olderKubeletKeys[key],
				func(old string) bool { return sameJSON(value, json.RawMessage(old)) }) {
			return false
		}
	}
	return !slices.ContainsFunc(neededKubeletKeys,
		func(key string) bool { _, there := have.values[key]; return !there })
}

// otherContainerdLines are lines that only some years, or the template in
// version 3 of containerd's configuration, had. Quotes are double here.
var otherContainerdLines = []string{
	`address = "/run/dockershim.sock"`, `enable_cdi = true`,
	`[plugins."io.containerd.grpc.v1.cri".registry.mirrors."k8s.gcr.io"]`,
	`endpoint = ["https://registry.k8s.io", "https://k8s.gcr.io",]`,
	`version = 3`, `sandbox = "` + sandboxPlaceholder + `"`,
	`[plugins."io.containerd.cri.v1.images"]`, `[plugins."io.containerd.cri.v1.images".pinned_images]`,
	`[plugins."io.containerd.cri.v1.images".registry]`,
	`[plugins."io.containerd.cri.v1.runtime".containerd]`,
	`[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]`,
	`[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]`,
	`[plugins."io.containerd.cri.v1.runtime".cni]`,
}

// knownContainerdConfig reports whether a configuration names the placeholder
// and consists of lines that templates had.
func knownContainerdConfig(text, template []byte) bool {
	known := append(configLines(template), otherContainerdLines...)
	sandbox := false
	for _, line := range configLines(text) {
		if !slices.Contains(known, line) {
			return false
		}
		sandbox = sandbox || strings.HasSuffix(line, `= "`+sandboxPlaceholder+`"`)
	}
	return sandbox
}

// configLines returns the lines of a TOML file without comments, empty lines
// and indentation, with double quotes.
func configLines(text []byte) []string {
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, strings.ReplaceAll(line, "'", `"`))
		}
	}
	return lines
}

//go:build linux

package bootstrap

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/shell"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

// scriptCalls are calls of bootstrap.sh with the outcomes of Amazon Linux 2's script and
// of this image.
//
//go:embed testdata/calls.tsv
var scriptCalls string

// A call has the outcome of Amazon Linux 2's script, or the table has the reason.
func TestOutcomesOfCallsOfBootstrapSh(t *testing.T) {
	h, w := mounted(t), surround(t, func() imdstest.Instance {
		i := imdstest.Typical()
		i.IPv6 = "fd00:1::2"
		return i
	}())
	lay(t, h, map[string]string{"/mine.toml": "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nsandbox_image = \"SANDBOX_IMAGE\"\n"})
	plain := w.outcome(t, h, "c $join")
	require.NotNil(t, plain)
	assert.Empty(t, w.aws.asked)
	for line := range strings.Lines(scriptCalls) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, columns, 5, line)
		script, image, call, reason := columns[0], columns[1], columns[3], columns[4]
		got := difference(w.outcome(t, h, call), plain)
		if got == script {
			got = "="
		}
		assert.Equal(t, image, got, "%s\n%s", call, strings.Join(w.log, "\n"))
		assert.Equal(t, image == "=", reason == "", "%s: the table has a reason for each difference, and for nothing else", call)
	}
}

// outcome returns the settings of the node that a call results in, or nil if the call
// fails. c is an IPv4 cluster, six an IPv6 cluster, and post a cluster on an Outpost.
func (w *world) outcome(t *testing.T, h *host.Host, call string) map[string]string {
	t.Helper()
	call = strings.ReplaceAll(call, "$join", "--apiserver-endpoint https://a.example --b64-cluster-ca Y2E=")
	words, err := shell.Fields(call, nil)
	require.NoError(t, err, call)
	environment := map[string]string{}
	for len(words) > 0 && regexp.MustCompile(`^[A-Z]\w*=`).MatchString(words[0]) {
		name, value, _ := strings.Cut(words[0], "=")
		environment[name], words = value, words[1:]
	}
	a, err := arguments.Read(words, func(name string) string { return environment[name] })
	w.log = []string{fmt.Sprint(err)}
	if err != nil {
		return nil
	}
	d := node.Described{Endpoint: "https://described.example", CA: []byte("D1"), IPFamily: "ipv4", IPv4CIDR: "10.100.0.0/16"}
	switch w.aws.err = nil; a.Cluster {
	case "six":
		d.IPFamily, d.IPv4CIDR, d.IPv6CIDR = "ipv6", "", "fd00:9::/108"
	case "post":
		d.Outpost, d.ID = true, "id-9"
	case "gone":
		w.aws.err = errors.New("no such cluster")
	}
	w.aws.described = d
	n, err := w.FromArguments(t.Context(), h, a)
	if err != nil {
		w.log = append(w.log, err.Error())
		return nil
	}
	return settings(t, n)
}

// settings returns what Amazon Linux 2's script writes for a node.
func settings(t *testing.T, n *node.Node) map[string]string {
	t.Helper()
	rendered, err := render.Files(n)
	require.NoError(t, err)
	files := map[string]string{}
	for _, f := range rendered {
		files[f.Path] = string(f.Content)
	}
	find := func(pattern, in string) string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(in)
		require.NotNil(t, found, "%s in %s", pattern, in)
		return found[1]
	}
	var config struct {
		ClusterDNS                               []string
		MaxPods                                  any
		SystemReservedCgroup, KubeReservedCgroup string
		KubeReserved                             map[string]string
	}
	require.NoError(t, json.Unmarshal([]byte(files[render.ScriptKubeletConfig]), &config))
	for i, text := range config.ClusterDNS {
		if address, err := netip.ParseAddr(text); err == nil {
			config.ClusterDNS[i] = address.String()
		}
	}
	pause := find(`sandbox(?:_image)? = ['"](.*)['"]`, files[render.ContainerdConfig])
	arguments := strings.ReplaceAll(find(`Environment='KUBELET_ARGS=(.*)'`, files[render.ScriptArguments]), pause, "PAUSE")
	ip, arguments, _ := strings.Cut(strings.TrimPrefix(arguments, "--node-ip="), " ")
	kubeconfig, extra := files[render.Kubeconfig]+files[render.BootstrapKubeconfig], ""
	if text, there := files[render.ScriptExtraArguments]; there {
		extra = find(`(?s)Environment='KUBELET_EXTRA_ARGS=(.*)'`, text)
	}
	return map[string]string{
		"cluster": find(`--cluster-name\n *- "(.*)"`, kubeconfig), "server": find(`server: (.*)`, kubeconfig),
		"ca": strings.TrimSuffix(files[render.ClusterCA], "\n"), "dns": strings.Join(config.ClusterDNS, ","),
		"maxPods": fmt.Sprint(config.MaxPods), "memory": config.KubeReserved["memory"],
		"cgroups": config.SystemReservedCgroup + config.KubeReservedCgroup, "pause": pause,
		"own template": fmt.Sprint(n.Containerd.Template != nil), "ip": ip, "args": arguments, "extra": extra,
		"bootstrap kubeconfig": fmt.Sprint(files[render.BootstrapKubeconfig] != ""),
		"bpf":                  fmt.Sprint(n.MountBPF), "disks": strings.ToLower(n.Disks.Strategy),
	}
}

// difference returns the settings that differ from those of the plain call.
func difference(got, plain map[string]string) string {
	if got == nil {
		return "fails"
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if got[name] != plain[name] {
			all = append(all, name+"="+strings.NewReplacer("\\", `\\`, "\n", `\n`).Replace(got[name]))
		}
	}
	if len(all) == 0 {
		return "joins"
	}
	return strings.Join(all, "; ")
}

//go:build linux

package scrub

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheAPIServersOfAMachineAreSearchedAfterItsKubeconfigsAreGone(t *testing.T) {
	files := map[string]string{
		"etc/passwd":                         passwd,
		"etc/kubernetes/admin.conf":          "clusters:\n- cluster:\n    server: https://api.corp.internal:6443\n  name: x\n",
		"var/lib/kubelet/kubeconfig":         "clusters: [{cluster: {server: \"https://10.20.30.40:6443\"}}]\n",
		"etc/hosts":                          "127.0.0.1 localhost\n10.0.0.9 API.corp.internal\n",
		"etc/app.conf":                       "upstream=10.20.30.40:80\nother=10.20.30.40:6443\n",
		"home/admin/join.sh":                 "join api.corp.internal\n",
		"var/lib/cloud/scripts/per-boot/own": "api.corp.internal\n",
	}
	h, _ := tree(t, files)
	ids, err := MachineIDs(h)
	require.NoError(t, err)
	assert.Equal(t, []string{"10.20.30.40:6443", "api.corp.internal"}, ids)
	found, err := oldIDsLeft(t.Context(), h, taken{}, ids)
	require.NoError(t, err)
	var got []string
	for _, f := range found {
		got = append(got, f.Target+": "+f.Reason)
	}
	assert.ElementsMatch(t, []string{
		"/etc/hosts: line 2 contains the old cluster's API server",
		"/etc/app.conf: line 2 contains the old cluster's API server",
		"/etc/kubernetes/admin.conf: line 3 contains the old cluster's API server",
		"/home/admin/join.sh: line 1 contains the old cluster's API server",
		"/var/lib/cloud/scripts/per-boot/own: line 1 contains the old cluster's API server",
		"/var/lib/kubelet/kubeconfig: line 1 contains the old cluster's API server",
	}, got)
}

func TestServersInKubeconfigs(t *testing.T) {
	for text, want := range map[string][]string{
		"    server: https://API.corp.internal:6443\n":                                     {"api.corp.internal"},
		"- cluster: {certificate-authority: x}\n  server: \"https://[fd00::1]:443\"":       nil,
		"server: 'https://[fd00:1:2::1]:6443'":                                             {"[fd00:1:2::1]:6443"},
		"server: https://10.1.2.3":                                                         {"https://10.1.2.3"},
		"server: MASTER_ENDPOINT":                                                          nil,
		"server: https://127.0.0.1:6443":                                                   nil,
		"server: https://localhost.localdomain":                                            nil,
		"server: https://kubernetes.default.svc":                                           nil,
		"server: https://%zz":                                                              nil,
		"server: https://short.io":                                                         {"short.io"},
		"server: https://0123456789abcdef0123456789ABCDEF.gr7.eu-west-1.eks.amazonaws.com": nil,
		"server: https://a.b":                                                              nil,
		"proxy-server: https://other.internal":                                             nil,
		"":                                                                                 nil,
	} {
		assert.Equal(t, want, serversIn(text), text)
	}
}

// FuzzServersIn reads any kubeconfig.
func FuzzServersIn(f *testing.F) {
	f.Add("server: https://api.corp.internal:6443\n")
	f.Add("- server: \"https://[::1]:1\"\n  server: http://\xff")
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range serversIn(text) {
			require.True(t, isClustersOwn(name))
		}
	})
}

package scrub

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

func TestProxiesOfTheBuildAreFound(t *testing.T) {
	for name, text := range map[string]string{
		"/etc/apt/apt.conf.d/95proxy":                        "Acquire::http::Proxy \"http://proxy:3128\";\n",
		"/etc/dnf/dnf.conf":                                  "[main]\nproxy=http://proxy:3128\n",
		"/etc/sysconfig/proxy":                               "PROXY_ENABLED=\"yes\"\nHTTP_PROXY=\"http://proxy:3128\"\n",
		"/etc/environment":                                   "PATH=/bin\nhttps_proxy=http://proxy:3128\n",
		"/etc/profile.d/proxy.sh":                            "export HTTP_PROXY='http://proxy:3128'\n",
		"/etc/systemd/system.conf.d/proxy.conf":              "[Manager]\nDefaultEnvironment=\"HTTPS_PROXY=http://proxy:3128\"\n",
		"/etc/systemd/system/containerd.service.d/http.conf": "[Service]\nEnvironment=\"HTTP_PROXY=http://proxy:3128\"\n",
		"/root/.curlrc":                                      "proxy = \"http://proxy:3128\"\n",
		"/etc/wgetrc":                                        "https_proxy = http://proxy:3128/\n",
		"/root/.gitconfig":                                   "[http]\n\tproxy = http://proxy:3128\n",
	} {
		assert.Equal(t, []string{name}, proxiesFound(t, name, text))
	}
	for name, text := range map[string]string{
		"/etc/apt/apt.conf.d/50x": "// Acquire::http::Proxy \"x\";\nAcquire::Retries \"3\";\n",
		"/etc/dnf/dnf.conf":       "[main]\n#proxy=http://x\nproxy=_none_\n",
		"/etc/sysconfig/proxy":    "PROXY_ENABLED=\"no\"\nHTTP_PROXY=\"\"\nNO_PROXY=\"localhost\"\n",
		"/etc/environment":        "# http_proxy=http://x\nno_proxy=localhost\nhttp_proxy=\n",
		"/etc/wgetrc":             "#https_proxy = http://proxy.yoyodyne.com:18023/\nuse_proxy = on\n",
	} {
		assert.Empty(t, proxiesFound(t, name, text), name)
	}
}

// proxiesFound returns the files that the rule reports in an image with one file.
func proxiesFound(t *testing.T, name, text string) []string {
	t.Helper()
	h := hosttest.Root(t, map[string]string{"etc/passwd": "root:x:0:0:root:/root:/bin/bash\n", name[1:]: text})
	answer, err := look(t, "proxy-left", h)
	require.NoError(t, err)
	var found []string
	for _, f := range answer.Findings {
		found = append(found, f.Target)
	}
	return found
}

//go:build linux

package scrub

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
)

// twice checks that reversing a reversed text changes nothing and reports the same
// unknown values.
func twice(t *testing.T, reverse reverser, text, template []byte) {
	once, err := reverse(text, template)
	if err != nil {
		return
	}
	again, err := reverse(once.Content, template)
	require.NoError(t, err, "%q", once.Content)
	require.Equal(t, string(once.Content), string(again.Content))
	require.Equal(t, once.Unknown, again.Unknown)
}

// FuzzReverseKubeconfig reverses any text without a panic; a second pass changes
// nothing. A template filled with valid values becomes the template again.
func FuzzReverseKubeconfig(f *testing.F) {
	template := templateText(templates.Kubeconfig)
	f.Add(template, "https://x.eks.amazonaws.com", "a", "us-east-1")
	f.Add(joinedKubeconfig, "https://[::1]:443/path?q=\"'", "0_-", "us-gov-west-1")
	f.Add("server: \n- -i\n- --region\n-", "https://", "CLUSTER_NAME", "cn-north-1")
	f.Fuzz(func(t *testing.T, text, endpoint, cluster, region string) {
		twice(t, reverseKubeconfig, []byte(text), []byte(template))
		endpoint = "https://" + strings.TrimPrefix(endpoint, "https://")
		if strings.ContainsAny(endpoint, "\n\r") || !clusterName().MatchString(cluster) || !regionName().MatchString(region) {
			return
		}
		filled := strings.NewReplacer(endpointPlaceholder, endpoint, clusterPlaceholder, cluster, regionPlaceholder, region).Replace(template)
		back, err := reverseKubeconfig([]byte(filled), []byte(template))
		require.NoError(t, err)
		require.Empty(t, back.Unknown)
		if strings.TrimSpace(endpoint) == endpoint && !strings.HasSuffix(endpoint, `"`) && !strings.HasSuffix(endpoint, "'") {
			require.Equal(t, template, string(back.Content))
		}
	})
}

// FuzzReverseContainerdConfig does the same as FuzzReverseKubeconfig for the pause
// image.
func FuzzReverseContainerdConfig(f *testing.F) {
	template := templateText(templates.ContainerdConfig)
	f.Add(template, "123456789012", "us-west-2", "amazonaws.com", ":3.10")
	f.Add(joinedContainerd, "000000000000", "cn-north-1", "amazonaws.com.cn", "@sha256:0")
	f.Add("sandbox_image = 'x'\nsandbox = \"\" # y", "", "", "", "")
	f.Fuzz(func(t *testing.T, text, account, region, domain, tag string) {
		twice(t, reverseContainerdConfig, []byte(text), []byte(template))
		image := account + ".dkr.ecr." + region + "." + domain + "/eks/pause" + tag
		if !pauseImage().MatchString(image) || strings.ContainsAny(image, "\n\r\"'") {
			return
		}
		filled := strings.Replace(template, sandboxPlaceholder, image, 1)
		back, err := reverseContainerdConfig([]byte(filled), []byte(template))
		require.NoError(t, err)
		require.Empty(t, back.Unknown)
		require.Equal(t, template, string(back.Content))
	})
}

// FuzzReverseKubeletConfig sets the keys of a bootstrap to any JSON values. They
// are reversed to the template's.
func FuzzReverseKubeletConfig(f *testing.F) {
	template := []byte(templateText(templates.KubeletConfig))
	f.Add(string(template), `17`, uint16(0xffff))
	f.Add(`{"maxPods":1,"maxPods":2}`, `{"cpu":"70m"}`, uint16(1))
	f.Add(`{"a":1}{`, `["10.100.0.10"]`, uint16(0x10))
	f.Fuzz(func(t *testing.T, text, value string, keys uint16) {
		twice(t, reverseKubeletConfig, []byte(text), template)
		if !json.Valid([]byte(value)) {
			return
		}
		filled, err := parseObject(template)
		require.NoError(t, err)
		for i, key := range bootstrapKeys {
			if keys&(1<<i) != 0 {
				filled.set(key, json.RawMessage(value))
			}
		}
		out, err := filled.text()
		require.NoError(t, err)
		back, err := reverseKubeletConfig(out, template)
		require.NoError(t, err)
		require.Empty(t, back.Unknown)
		require.True(t, equivalent(back.Content, template), "%s", back.Content)
	})
}

// First boot sets resolvConf to the name servers of systemd-resolved; every
// other value, and a template's, is a user's.
func TestResolvConfOfFirstBootIsTakenBack(t *testing.T) {
	const first = `"/run/systemd/resolve/resolv.conf"`
	template := []byte(templateText(templates.KubeletConfig))
	with := func(text []byte, value string) []byte {
		o, err := parseObject(text)
		require.NoError(t, err)
		o.set("resolvConf", json.RawMessage(value))
		text, err = o.text()
		require.NoError(t, err)
		return text
	}
	for name, c := range map[string]struct{ current, template, want []byte }{
		"first boot's":   {with(template, first), template, template},
		"a user's":       {with(template, `"/etc/own.conf"`), template, with(template, `"/etc/own.conf"`)},
		"the template's": {with(template, first), with(template, first), with(template, first)},
		"no text":        {with(template, `7`), template, with(template, `7`)},
	} {
		t.Run(name, func(t *testing.T) {
			back, err := reverseKubeletConfig(c.current, c.template)
			require.NoError(t, err)
			assert.True(t, equivalent(back.Content, c.want), "%s", back.Content)
		})
	}
}

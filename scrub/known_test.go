//go:build linux

package scrub

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// nodeadmKubeconfig has the layout that Amazon's nodeadm renders.
const nodeadmKubeconfig = `---
apiVersion: v1
kind: Config
clusters:
  - name: kubernetes
    cluster:
      certificate-authority: /etc/kubernetes/pki/ca.crt
      server: https://CE0253A94B6B14215AE3282580CFA5E3.gr7.eu-west-1.eks.amazonaws.com
current-context: kubelet
contexts:
  - name: kubelet
    context:
      cluster: kubernetes
      user: kubelet
users:
  - name: kubelet
    user:
      exec:
        apiVersion: client.authentication.k8s.io/v1beta1
        command: aws
        args:
          - "eks"
          - "get-token"
          - "--cluster-name"
          - "old-cluster"
          - "--region"
          - "eu-west-1"
`

// kubeconfigs are the kubeconfigs of Amazon Linux 2's images through the years.
func kubeconfigs() map[string]string {
	now := templateText(templates.Kubeconfig)
	alpha := strings.Replace(now, "k8s.io/v1beta1", "k8s.io/v1alpha1", 1)
	head, _, _ := strings.Cut(alpha, "      command:")
	return map[string]string{
		"2022":                   now,
		"before 2022":            alpha,
		"without a last newline": strings.TrimSuffix(alpha, "\n"),
		"with the AWS CLI": head + "      command: aws\n      env:\n        - name: AWS_STS_REGIONAL_ENDPOINTS\n          value: regional\n      args:\n" +
			"        - eks\n        - --region\n        - \"AWS_REGION\"\n        - get-token\n        - --cluster-name\n        - \"CLUSTER_NAME\"\n",
		"with get-token first": strings.Replace(head, "v1alpha1", "v1beta1", 1) + "      command: /usr/bin/aws\n      args:\n" +
			"        - \"eks\"\n        - \"get-token\"\n        - \"--cluster-name\"\n        - \"CLUSTER_NAME\"\n        - --region\n        - \"AWS_REGION\"\n",
		"with spaces at an end of a line": strings.Replace(now, "MASTER_ENDPOINT\n", "MASTER_ENDPOINT \n", 1),
		"with newlines at the end":        now + "\n\n",
		"with CRLF":                       strings.ReplaceAll(now, "\n", "\r\n"),
	}
}

// A kubeconfig of Amazon Linux 2's form is restored byte for byte, wherever its
// bootstrap script is, and also without one.
func TestKnownKubeconfigsAreRestoredWithoutTheirScript(t *testing.T) {
	scripts := map[string]string{
		"no script": "", "in /opt/eks": "opt/eks/bootstrap.sh", "in /usr/local/bin": "usr/local/bin/bootstrap.sh",
		"in /usr/local/share/eks": "usr/local/share/eks/bootstrap.sh", "in /etc/eks": "etc/eks/bootstrap.sh",
	}
	clusters := map[string][3]string{
		"China":        {"https://CE0253A94B6B14215AE3282580CFA5E3.yl4.cn-north-1.eks.amazonaws.com.cn", "old", "cn-north-1"},
		"GovCloud":     {"https://CE0253A94B6B14215AE3282580CFA5E3.gr7.us-gov-west-1.eks.amazonaws.com", "old_1", "us-gov-west-1"},
		"isolated":     {"https://CE0253A94B6B14215AE3282580CFA5E3.gr7.us-isob-east-1.eks.sc2s.sgov.gov", "1-old", "us-isob-east-1"},
		"IPv6":         {"https://ce0253a94b6b14215ae3282580cfa5e3.eks-cluster.us-west-2.api.aws", "old", "us-west-2"},
		"IPv6 address": {"https://[2600:1f14::10]:443", "old", "us-west-2"},
		"not filled":   {"MASTER_ENDPOINT", "CLUSTER_NAME", "AWS_REGION"},
	}
	for generation, template := range kubeconfigs() {
		for where, script := range scripts {
			for cluster, values := range clusters {
				t.Run(generation+"/"+where+"/"+cluster, func(t *testing.T) {
					files := map[string]string{"etc/passwd": passwd,
						templates.Kubeconfig[1:]: strings.NewReplacer("MASTER_ENDPOINT", values[0], "CLUSTER_NAME", values[1], "AWS_REGION", values[2]).Replace(template)}
					if script != "" {
						files[script] = "#!/bin/bash\nsed -i s,MASTER_ENDPOINT,$APISERVER_ENDPOINT,g /var/lib/kubelet/kubeconfig\n"
					}
					h, root := tree(t, files)
					apply(t, h, Spec{Only: []string{"kubelet-kubeconfig"}})
					want := template
					if trimmed(template) == trimmed(templateText(templates.Kubeconfig)) && cluster != "not filled" {
						want = templateText(templates.Kubeconfig)
					}
					assert.Equal(t, want, snapshot(t, root)[templates.Kubeconfig])
				})
			}
		}
	}
}

// Templates are restored without a script too: those of the manifest, and known ones. With one
// known template, a person's edits of the others stay. Missing files of no manifest stay missing,
// and kubeconfigs of other forms are removed, also nodeadm's beside the bootstrap.sh of Amazon
// Linux 2023, which only prints an error.
func TestTemplatesAreRestoredWithoutTheScript(t *testing.T) {
	pause := "918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn/eks/pause:3.5"
	dockershim := strings.NewReplacer("containerd/containerd.sock", "dockershim.sock", "# Put additional settings into files of this folder; they are merged in.\n", "",
		"imports = [\"/etc/containerd/config.d/*.toml\"]\n", "").Replace(templateText(templates.ContainerdConfig))
	three := "version = 3\nroot = \"/var/lib/containerd\"\nstate = \"/run/containerd\"\n[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = \"SANDBOX_IMAGE\"\n"
	older := strings.Replace(templateText(templates.KubeletConfig), `"RotateKubeletServerCertificate": true`, `"RotateKubeletServerCertificate": true, "KubeletCredentialProviders": true`, 1)
	fill := func(config string) string {
		return strings.Replace(config, `"cgroupfs"`, `"systemd", "maxPods": 17, "clusterDNS": ["10.100.0.10"], "providerID": "aws:///a/i-1"`, 1)
	}
	stub := map[string]string{"etc/eks/bootstrap.sh": "#!/usr/bin/env bash\necho >&2 'ERROR: bootstrap.sh has been removed from AL2023-based EKS AMIs.\nEKS nodes are now initialized by nodeadm.'\nexit 1\n"}
	ours := strings.Replace(templateText(templates.Kubeconfig), "kind: Config\n", "kind: Config # ours\n", 1)
	filled := strings.NewReplacer("MASTER_ENDPOINT", "https://a.eks.amazonaws.com", "CLUSTER_NAME", "a", "AWS_REGION", "us-east-1").Replace(ours)
	oursRecorded := map[string]string{manifest.Path[1:]: recorded(templates.Kubeconfig, ours)}
	// bootstrap.sh edits the kubelet's configuration with jq, which rewrites the whole file.
	spaced := "{\n\t\"kind\": \"KubeletConfiguration\",   \"evictionHard\": {\"memory.available\": \"100Mi\"},\n\t\"cgroupDriver\": \"systemd\"\n}"
	jq := "{\n  \"kind\": \"KubeletConfiguration\",\n  \"cgroupDriver\": \"systemd\",\n  \"evictionHard\": {\n    \"memory.available\": \"200Mi\"\n  },\n  \"maxPods\": 17\n}\n"
	plain := strings.NewReplacer("200Mi", "100Mi", ",\n  \"maxPods\": 17", "").Replace(jq)
	mine := func(text string) string { return strings.Replace(text, "{\n", "{\n  \"registryPullQPS\": 7,\n", 1) }
	spacedRecorded := map[string]string{manifest.Path[1:]: recorded(templates.KubeletConfig, spaced)}
	for name, c := range map[string]struct {
		file, now, want string
		more            map[string]string
	}{
		"recorded, filled in":             {templates.Kubeconfig, filled, ours, oursRecorded},
		"recorded, missing":               {templates.Kubeconfig, "", ours, oursRecorded},
		"recorded, empty":                 {templates.Kubeconfig, " \n", ours, oursRecorded},
		"recorded, untouched":             {templates.Kubeconfig, ours, ours, oursRecorded},
		"recorded, edited and filled in":  {templates.Kubeconfig, filled + "# mine\n", ours + "# mine\n", oursRecorded},
		"recorded, edited, not filled in": {templates.Kubeconfig, ours + "# mine\n", ours + "# mine\n", oursRecorded},
		"recorded, by jq":                 {templates.KubeletConfig, jq, spaced, spacedRecorded},
		"recorded, only rewritten":        {templates.KubeletConfig, plain, spaced, spacedRecorded},
		"recorded, edited and by jq":      {templates.KubeletConfig, mine(jq), mine(plain), spacedRecorded},
		"nodeadm's":                       {templates.Kubeconfig, nodeadmKubeconfig, "", nil},
		"nodeadm's and a stub":            {templates.Kubeconfig, nodeadmKubeconfig, "", stub},
		"the kubelet's own": {templates.Kubeconfig, "apiVersion: v1\nkind: Config\nclusters:\n- cluster:\n    server: https://x\n  name: c\nusers:\n- name: n\n  user:\n" +
			"    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem\n", "", nil},
		"no YAML":               {templates.Kubeconfig, "a: b: c", "", nil},
		"another command":       {templates.Kubeconfig, strings.Replace(joinedKubeconfig, "/usr/bin/aws-iam-authenticator", "/opt/token", 1), "", nil},
		"more arguments":        {templates.Kubeconfig, joinedKubeconfig + "        - --role\n        - arn:aws:iam::111122223333:role/old\n", "", nil},
		"another user":          {templates.Kubeconfig, joinedKubeconfig + "- name: admin\n  user:\n    token: abc\n", "", nil},
		"empty":                 {templates.Kubeconfig, "\n", "", nil},
		"containerd's":          {templates.ContainerdConfig, strings.Replace(templateText(templates.ContainerdConfig), "SANDBOX_IMAGE", pause, 1), templateText(templates.ContainerdConfig), nil},
		"containerd's, 2021":    {templates.ContainerdConfig, strings.Replace(dockershim, "SANDBOX_IMAGE", pause, 1), dockershim, nil},
		"containerd's, v3":      {templates.ContainerdConfig, strings.Replace(three, "SANDBOX_IMAGE", pause, 1), three, nil},
		"containerd's, another": {templates.ContainerdConfig, strings.Replace(three, "SANDBOX_IMAGE", pause, 1) + "oom_score = -999\n", "", nil},
		"containerd's, edited": {templates.ContainerdConfig, strings.Replace(three, "SANDBOX_IMAGE", pause, 1) + "oom_score = -999\n", three + "oom_score = -999\n",
			map[string]string{templates.Kubeconfig[1:]: joinedKubeconfig}},
		"the kubelet's":          {templates.KubeletConfig, fill(templateText(templates.KubeletConfig)), templateText(templates.KubeletConfig), nil},
		"the kubelet's, 2023":    {templates.KubeletConfig, fill(older), reversed(older), nil},
		"the kubelet's, another": {templates.KubeletConfig, `{"kind":"KubeletConfiguration","maxPods":17,"registryPullQPS":7}`, "", nil},
		"the kubelet's, edited": {templates.KubeletConfig, strings.Replace(fill(templateText(templates.KubeletConfig)), "{", `{"registryPullQPS": 7,`, 1),
			reversed(strings.Replace(templateText(templates.KubeletConfig), "{", `{"registryPullQPS": 7,`, 1)), map[string]string{templates.Kubeconfig[1:]: joinedKubeconfig}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"etc/passwd": passwd, "var/lib/kubelet/": "", c.file[1:]: c.now}
			if c.now == "" {
				delete(files, c.file[1:])
			}
			maps.Copy(files, c.more)
			h, root := tree(t, files)
			before := snapshot(t, root)
			apply(t, h, Spec{Only: []string{"templates"}})
			after := snapshot(t, root)
			if c.want == "" {
				assert.NotContains(t, after, c.file)
			} else {
				assert.Equal(t, c.want, after[c.file])
			}
			for _, change := range diff(before, after) {
				assert.False(t, strings.HasPrefix(change, "+ ") && change != "+ "+c.file, change)
			}
		})
	}
}

// trimmed is a text without space at the end of lines and around the text.
func trimmed(text string) string {
	return strings.TrimSpace(regexp.MustCompile(`[ \t\r]+\n`).ReplaceAllString(text, "\n"))
}

// reversed is a configuration of the kubelet as jq prints it.
func reversed(text string) string {
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(text), "", "  "); err != nil {
		panic(err)
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// The configuration that a bootstrap copied for containerd is recognized without
// the script. Where nothing would write another, the rule reports the file.
func TestCopiesOfKnownTemplatesAreRemoved(t *testing.T) {
	const name = "etc/containerd/config.toml"
	filled := strings.Replace(templateText(templates.ContainerdConfig), "SANDBOX_IMAGE", "918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn/eks/pause:3.5", 1)
	h, root := tree(t, map[string]string{"etc/passwd": passwd, name: filled, templates.ContainerdConfig[1:]: filled})
	apply(t, h, Spec{Only: []string{"containerd"}})
	assert.NotContains(t, snapshot(t, root), "/"+name)
	assert.Equal(t, templateText(templates.ContainerdConfig), snapshot(t, root)[templates.ContainerdConfig])

	h, root = tree(t, map[string]string{"etc/passwd": passwd, name: filled})
	outcomes := apply(t, h, Spec{Only: []string{"containerd-config"}})
	assert.Equal(t, filled, snapshot(t, root)["/"+name])
	assert.Equal(t, []plan.Finding{{Target: "/" + name,
		Reason: "pulls the pause image from the registry of the build's region, and no bootstrap on this machine writes the file again: name the pause image of the new node's region, or remove the file"}}, outcomes[0].Findings)
}

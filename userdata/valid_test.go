package userdata

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

func inBase64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

const call = "/etc/eks/bootstrap.sh c\n"

// Valid user data in the forms that cloud-init, Amazon's nodeadm, EC2Launch and
// Bottlerocket accept. The results for NodeConfigs were compared with those of
// Amazon's nodeadm config check.
func TestValidUserDataIsAccepted(t *testing.T) {
	config := withAuthority(head + whole)
	part := "Content-Type: application/node.eks.aws\n"
	for name, c := range map[string]struct{ text, want string }{
		"quotes on Windows":             {powers + `-KubeletExtraArgs '--node-labels="a=b,c=d" --register-with-taints="a=b:NoSchedule"'` + powersEnd, ""},
		"Windows with a mark":           {"\ufeff" + powers + powersEnd, ""},
		"persist and two scripts":       {"<script>\necho\n</script>\n" + powers + powersEnd + "<persist>true</persist>\n", ""},
		"a here-string and a comment":   {"<powershell>\n<# '\n#>\n$x = @'\nit's\n'@\n& Start-EKSBootstrap.ps1 -EKSClusterName a\n</powershell>\n", ""},
		"Bottlerocket's percentages":    {toml3 + "image-gc-high-threshold-percent = '85'\nimage-gc-low-threshold-percent = 80\n", ""},
		"Bottlerocket with a mark":      {"\ufeff" + toml3, ""},
		"Bottlerocket's eviction":       {toml3 + "[settings.kubernetes.eviction-hard]\n\"memory.available\" = '12%'\n[settings.kubernetes.kube-reserved]\ncpu = '100m'\n", ""},
		"a written script":              {"#cloud-config\nwrite_files:\n- path: /opt/join.sh\n  permissions: '0755'\n  content: |\n    #!/bin/bash\n    /etc/eks/bootstrap.sh c\nruncmd:\n- /opt/join.sh\n", ""},
		"a written script by bash":      {"#cloud-config\nwrite_files:\n- path: /opt/join.sh\n  encoding: b64\n  content: " + inBase64("#!/bin/bash\n"+call) + "\nruncmd:\n- [bash, -x, /opt/join.sh]\n", ""},
		"a written script, packed":      {"#cloud-config\nwrite_files:\n- path: /opt/bootstrap.sh\n  encoding: gz+b64\n  content: " + inBase64(packed(t, "#!/bin/bash\n"+call)) + "\nruncmd:\n- [sudo, /opt/bootstrap.sh, --an-own-flag]\n", ""},
		"a script that cloud-init runs": {"#cloud-config\nwrite_files:\n- path: /var/lib/cloud/scripts/per-instance/join.sh\n  content: |\n    #!/bin/sh\n    /etc/eks/bootstrap.sh c\n", ""},
		"a script that a script writes": {script + "cat > /opt/join.sh <<'EOF'\n#!/bin/bash\n" + call + "EOF\nbash /opt/join.sh\n", ""},
		"commands over two entries":     {"#cloud-config\nruncmd:\n- if true; then\n- /etc/eks/bootstrap.sh c\n- fi\n", ""},
		"bash -c":                       {script + "sudo bash -c '/etc/eks/bootstrap.sh c --use-max-pods false'\n", ""},
		"a function and a condition":    {script + "join() {\n  if [[ -x /etc/eks/bootstrap.sh ]]; then /etc/eks/bootstrap.sh c; fi\n}\njoin\n", ""},
		"an environment":                {script + "env A=b timeout 600 /etc/eks/bootstrap.sh c\n", ""},
		"Python":                        {"#!/usr/bin/env python3\nimport subprocess\nsubprocess.run(['/etc/eks/bootstrap.sh', 'c'])\n", ""},
		"variables of the script":       {script + "export ARGS='--node-labels=a=b --v=2'\nCA=" + authority + "\n/etc/eks/bootstrap.sh c --kubelet-extra-args \"$ARGS\" --b64-cluster-ca ${CA} --apiserver-endpoint https://a\n", ""},
		"an empty part":                 {multi("Content-Type: text/plain\n\n", "Content-Type: text/x-shellscript\n\n"+script+call), ""},
		"a part without header":         {multi("\n", "Content-Type: text/x-shellscript\n\n"+script+call), ""},
		"the last delimiter":            {strings.TrimSuffix(multi("Content-Type: text/x-shellscript\n\n"+script+call), "--\n") + "\n", "9: warning: --X-- should end the last part, not --X"},
		"an empty NodeConfig":           {multi(part+"\n", part+"\n"+config), "warning: Amazon's image does not read the user data: the NodeConfig is empty"},
		"a NodeConfig with a mark":      {"\ufeff" + config, ""},
		"a part with a mark":            {multi(part + "\n\ufeff" + config), ""},
		"MIME with a mark":              {"\ufeff" + multi(part+"\n"+config), "1: warning: cloud-init does not recognize MIME after a byte-order mark; the MIME header must begin with the first byte"},
		"MIME after a blank line":       {"\n" + multi(part+"\n"+config), "warning: Amazon's image does not read the user data: the text is not read as MIME (mime: no media type), and is no YAML: yaml: line 6: could not find expected ':'|1: warning: cloud-init does not recognize MIME after blank lines or spaces; the MIME header must begin with the first byte"},
		"gzip in a part":                {multi(part + "\n" + packed(t, config) + "\n"), ""},
		"base64 in a part":              {multi(part + "\n" + inBase64(config) + "\n"), ""},
		"both in a part":                {multi(part + "\n" + inBase64(packed(t, config)) + "\n"), ""},
		"base64 as encoding":            {multi(part + "Content-Transfer-Encoding: base64\n\n" + inBase64(config) + "\n"), ""},
		"quoted-printable":              {multi(part + "Content-Transfer-Encoding: quoted-printable\n\n" + strings.ReplaceAll(config, "=", "=3D")), ""},
		"MIME in MIME":                  {multi("Content-Type: multipart/mixed; boundary=Y\n\n--Y\n" + part + "\n" + config + "--Y--\n"), "warning: Amazon's image does not read the user data: no part has the type application/node.eks.aws"},
		"lines of Windows in MIME":      {strings.ReplaceAll(multi(part+"\n"+config), "\n", "\r\n"), ""},
		"text/plain":                    {multi("Content-Type: text/plain\n\n" + script + call), ""},
		"cloud-config as a script":      {multi("Content-Type: text/x-shellscript\n\n#cloud-config\nruncmd: [[/etc/eks/bootstrap.sh, c]]\n"), ""},
		"a script for every boot":       {multi("Content-Type: text/x-shellscript-per-boot\n\n" + script + call), ""},
		"an archive":                    {"#cloud-config-archive\n- type: text/x-shellscript\n  content: |\n    #!/bin/sh\n    /etc/eks/bootstrap.sh c\n- |\n  #cloud-config\n  packages: [jq]\n", ""},
		"a boothook":                    {"#cloud-boothook\n#!/bin/sh\n" + call, ""},
		"a template":                    {"## template: jinja\n#cloud-config\nruncmd:\n- /etc/eks/bootstrap.sh {{ ds.meta_data.tag }}\n", ""},
		"a template without one":        {"## template: jinja\n#!/bin/sh\n" + call, ""},
		"an include":                    {"#include\nhttps://example.com/user-data\n", "1: warning: cloud-init downloads further user data, which is not checked"},
		"a packed part":                 {multi("Content-Type: application/x-gzip\nContent-Transfer-Encoding: base64\n\n" + inBase64(packed(t, script+call)) + "\n"), ""},
		"latin1":                        {multi("Content-Type: text/x-shellscript; charset=iso-8859-1\n\n" + script + "echo \xfc\n" + call), ""},
		"only bash in sh":               {"#!/bin/sh\na=(b c)\n" + call, "2: warning: only bash knows this, and /bin/sh is another shell on some systems: arrays are a bash/mksh/zsh feature; tried parsing as posix; begin the script with #!/bin/bash"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, said(t, c.text, "")) })
	}
}

// EKS and Karpenter merge this user data with their own.
func TestMergedUserDataMayBeIncomplete(t *testing.T) {
	for name, c := range map[string]struct{ family, text string }{
		"a script":     {"", script + "echo\n"},
		"MIME":         {"", multi("Content-Type: text/x-shellscript\n\n" + script + "echo\n")},
		"NodeConfig":   {"", multi("Content-Type: application/node.eks.aws\n\n" + head + "  kubelet: {config: {maxPods: 10}}\n")},
		"Bottlerocket": {"", "[settings.kernel]\nlockdown = 'integrity'\n"},
		"PowerShell":   {"windows", "Write-Host 'a'\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := CheckMerged([]byte(c.text), c.family)
			require.NoError(t, err)
			assert.Empty(t, r.Problems)
			r, err = Check([]byte(c.text), c.family)
			require.NoError(t, err)
			assert.True(t, r.Failed(), "without merging, the machine must not pass")
		})
	}
	assert.Equal(t, "error: the user data is empty: without the user data of EKS or Karpenter, the machine joins no cluster", said(t, "\n", ""))
}

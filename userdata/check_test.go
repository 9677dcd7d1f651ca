package userdata

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

const (
	script = "#!/bin/bash -xe\n"
	head   = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n"
	whole  = "  cluster: {name: a, apiServerEndpoint: 'https://a', certificateAuthority: YQ==, cidr: 10.0.0.0/16}\n"
	class  = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nspec:\n  role: r\n  subnetSelectorTerms: [{id: a}]\n  securityGroupSelectorTerms: [{id: a}]\n  amiSelectorTerms: [{id: a}]\n"
	groups = "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {name: a, region: b}\nnodeGroups:\n"
	ami    = "ami: ami-0123456789abcdef0"
)

func multi(parts ...string) string {
	return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n--X\n" + strings.Join(parts, "--X\n") + "--X--\n"
}

// Problems name the line and field of each mistake.
func TestMistakesAreFoundByLineAndField(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		// bootstrap.sh
		"the seed's script":  {script + "sudo /etc/eks/bootstrap.sh --apiserver-endpoint 'https://a.b' --b64-cluster-ca 'YQ==' 'my-cluster'\n", ""},
		"placeholders":       {script + "sudo /etc/eks/bootstrap.sh --apiserver-endpoint 'CLUSTER-ENDPOINT' \\\n  --b64-cluster-ca '<ca>' c\n", `2: --apiserver-endpoint: "CLUSTER-ENDPOINT" must be an address such as https://ABC.gr7.eu-west-1.eks.amazonaws.com|3: --b64-cluster-ca: the value is not base64: illegal base64 data at input byte 0`},
		"a misspelt flag":    {script + "/etc/eks/bootstrap.sh c \\\n  --kubelet-args '--v=2'\n", "3: --kubelet-args: unknown flag; did you mean --kubelet-extra-args?|3: --v: unknown flag"},
		"quoted arguments":   {script + "A='--kubelet-extra-args --v=2'\n/etc/eks/bootstrap.sh c \"$A\"\n", "3: --kubelet-extra-args: quotes make one argument of several; remove the quotes"},
		"unquoted arguments": {script + "/etc/eks/bootstrap.sh c --kubelet-extra-args --node-labels=a=b --v=2\n", "2: --v: unknown flag"},
		"no name":            {script + "/etc/eks/bootstrap.sh --use-max-pods false\n", "2: the cluster's name is missing"},
		"a wrong value":      {script + "/etc/eks/bootstrap.sh c --use-max-pods no\n", `2: --use-max-pods: "no": must be true or false`},
		"what has no effect": {script + "/etc/eks/bootstrap.sh c --docker-config-json '{}'\n", "2: warning: --docker-config-json has no effect: containerd is the only container runtime"},
		"hidden images":      {script + "mkfs.xfs /dev/nvme1n1\nsudo mount -o noatime /dev/nvme1n1 /var/lib/containerd/\n/etc/eks/bootstrap.sh c\n", "3: warning: the mount hides the images in /var/lib/containerd that the machine image brings, such as the pause image; copy the folder first, or let first boot mount local disks: localStorage of a NodeConfig, --local-disks of bootstrap.sh"},
		"copied images":      {script + "mount /dev/nvme1n1 /mnt\ncp -a /var/lib/containerd/. /mnt\numount /mnt\nmount /dev/nvme1n1 /var/lib/containerd\n/etc/eks/bootstrap.sh c\n", ""},
		"another mount":      {script + "mount /dev/nvme1n1 /var/lib/docker\n/etc/eks/bootstrap.sh c\n", ""},
		"nothing calls it":   {script + "echo /etc/eks/bootstrap.sh\n# /etc/eks/bootstrap.sh c\ncat <<EOF\n/etc/eks/bootstrap.sh d\nEOF\n", "nothing calls /etc/eks/bootstrap.sh, so the machine joins no cluster"},
		"called twice":       {script + "/etc/eks/bootstrap.sh c; /etc/eks/bootstrap.sh d || true\n", "warning: bootstrap.sh is called 2 times; only the first can choose the cluster"},
		"variables":          {script + "B64=$(aws eks describe-cluster --name c)\n/etc/eks/bootstrap.sh ${NAME} --b64-cluster-ca $B64 --apiserver-endpoint \"$URL\" --kubelet-extra-args \"--node-labels=a=$(hostname)\" > /dev/null 2>&1\n", ""},
		"no shebang in MIME": {multi("Content-Type: text/x-shellscript; charset=\"us-ascii\"\n\n/etc/eks/bootstrap.sh c\n"), "7: a script begins with #! and the program that runs it, such as #!/bin/bash"},
		"lines of Windows":   {script + "/etc/eks/bootstrap.sh c\r\n", "1: warning: the lines end with CR LF; cloud-init corrects that, other programs that run the script do not"},
		"within MIME":        {multi("Content-Type: text/x-shellscript\n\n#!/bin/sh\n\n/etc/eks/bootstrap.sh c --nope x\n"), "9: --nope: unknown flag"},
		"the end missing":    {strings.TrimSuffix(multi("Content-Type: text/x-shellscript\n\n#!/bin/sh\n/etc/eks/bootstrap.sh c\n"), "--X--\n"), "9: --X-- is missing, which ends the last part"},
		"no boundary":        {"MIME-Version: 1.0\nContent-Type: multipart/mixed\n\n--X\n", ""},
		"too large":          {script + "/etc/eks/bootstrap.sh c\n#" + strings.Repeat("x", 17000) + "\n", "it has 17042 bytes, and EC2 takes at most 16384; compress it with gzip"},
		"an opened quote":    {script + "/etc/eks/bootstrap.sh 'c\n", "2: the shell cannot run the script: reached EOF without closing quote `'`"},
		// NodeConfig
		"a whole NodeConfig":   {head + whole, ""},
		"an unknown field":     {head + "  cluster:\n    nam: a\n", "5: spec.cluster.nam: unknown field; did you mean name?"},
		"within a part":        {multi("Content-Type: application/node.eks.aws\n\n---\n" + head + "  clutser: {}\n"), "11: spec.clutser: unknown field; did you mean cluster?"},
		"a wrong value in it":  {head + "  cluster:\n    name: a\n    apiServerEndpoint: a\n    certificateAuthority: YQ==\n    cidr: 10.0.0.0\n  kubelet:\n    flags:\n    - --v=2\n    - \"a\\nb\"\n", `6: spec.cluster.apiServerEndpoint: "a" must be an address such as https://ABC.gr7.eu-west-1.eks.amazonaws.com|8: spec.cluster.cidr: "10.0.0.0" is no network such as 10.100.0.0/16 or fd00:1234::/108|12: spec.kubelet.flags[1]: a flag must be on one line`},
		"a part after the end": {multi("Content-Type: application/node.eks.aws\n\n"+head+whole) + "Content-Type: application/node.eks.aws\n\n" + head + "--X--\n", "12: this part follows --X--, which in line 11 ended the last; no program reads the part"},
		"two parts":            {multi("Content-Type: application/node.eks.aws\n\n"+head+whole, "Content-Type: application/node.eks.aws\n\n"+head+"  instance:\n    localStorage: {strategy: RAID1}\n"), `18: spec.instance.localStorage.strategy: unknown value "RAID1"; did you mean RAID0?`},
		"something missing":    {head + "  cluster:\n    name: a\n    apiServerEndpoint: https://a\n    certificateAuthority: YQ==\n", "4: spec.cluster.cidr: is missing; `aws eks describe-cluster` shows the value"},
		"broken YAML":          {head + "  cluster: {name: a\n", "3: did not find expected ',' or '}'"},
		// cloud-config
		"a cloud-config":     {"#cloud-config\nruncmd:\n- /etc/eks/bootstrap.sh a --b64-cluster-ca ''\n", ""},
		"in a list":          {"#cloud-config\nruncmd:\n- [systemctl, stop, x]\n- [/etc/eks/bootstrap.sh, a,\n   --use-max-pods, 'no']\n", `5: --use-max-pods: "no": must be true or false`},
		"in a block":         {"#cloud-config\nruncmd:\n- |\n  set -ex\n  /etc/eks/bootstrap.sh a --x y\n", "5: --x: unknown flag"},
		"an unknown module":  {"#cloud-config\nrun_cmd:\n- x\nruncmd:\n- /etc/eks/bootstrap.sh a\n", "2: run_cmd: unknown field; cloud-init passes over it"},
		"no list":            {"#cloud-config\nruncmd: /etc/eks/bootstrap.sh a\n", "nothing calls /etc/eks/bootstrap.sh, so the machine joins no cluster|2: runcmd: it must be a list of commands"},
		"another first line": {"#cloud-config for nodes\nruncmd: [[/etc/eks/bootstrap.sh, a]]\n", "1: the first line must be #cloud-config and nothing else"},
		// Bottlerocket
		"settings":               {"settings.kubernetes.cluster-name = 'a'\nsettings.kubernetes.api-server = 'https://a'\nsettings.kubernetes.cluster-certificate = 'YQ=='\n", ""},
		"unknown settings":       {"[settings.kubernetes]\ncluster-name = 'a'\nclustername = 'a'\napi-server = 'https://a'\ncluster-certificate = 'YQ=='\n[settings.kuberntes]\nx = 1\n", "3: settings.kubernetes.clustername: unknown setting; did you mean cluster-name?|6: settings.kuberntes: unknown setting; did you mean kubernetes?"},
		"settings' kinds":        {"[settings.kubernetes]\ncluster-name = 'a'\napi-server = 'a'\ncluster-certificate = '<ca>'\nmax-pods = '5'\ncluster-dns-ip = 'a'\nallowed-unsafe-sysctls = 'a'\nserver-tls-bootstrap = 1\nauthentication-mode = 'iam'\nimage-gc-high-threshold-percent = 101\n[settings.host-containers.admin]\nenabled = 'true'\n", `3: settings.kubernetes.api-server: "a" is no address such as https://example.com|4: settings.kubernetes.cluster-certificate: the value is not base64: illegal base64 data at input byte 0|5: settings.kubernetes.max-pods: it must be a number, not text|6: settings.kubernetes.cluster-dns-ip: "a" is no address|7: settings.kubernetes.allowed-unsafe-sysctls: it must be a list of text, not text|8: settings.kubernetes.server-tls-bootstrap: it must be true or false, not a number|9: settings.kubernetes.authentication-mode: unknown value "iam"; known are aws, tls|10: settings.kubernetes.image-gc-high-threshold-percent: 101 must be from 0 to 100|12: settings.host-containers.admin.enabled: it must be true or false, not text`},
		"a label without quotes": {"[settings.kubernetes]\ncluster-name = 'a'\napi-server = 'https://a'\ncluster-certificate = 'YQ=='\n[settings.kubernetes.node-labels]\nexample.com = 'a'\n[settings.kubernetes.node-taints]\n\"a.b/c\" = 'x'\n", `6: settings.kubernetes.node-labels.example: it must be text, not a table: put a name that holds dots in quotes|8: settings.kubernetes.node-taints."a.b/c": "x" must be value:Effect, with NoSchedule, PreferNoSchedule or NoExecute`},
		"inline tables":          {"[settings]\nkubernetes = { cluster-name = 'a', api-server = 'https://a', cluster-certificate = 'YQ==' }\nmotd = 'a'\nkernel = { lockdown = 'on' }\n", `4: settings.kernel.lockdown: unknown value "on"; known are none, integrity, confidentiality`},
		"missing settings":       {"[settings.kubernetes]\ncluster-name = 'a'\n", "1: settings.kubernetes.api-server: is missing; `aws eks describe-cluster` shows the value|1: settings.kubernetes.cluster-certificate: is missing; `aws eks describe-cluster` shows the value"},
		"beside settings":        {"[settings.kubernetes]\nstandalone-mode = true\n[kubernetes]\na = 1\n", "3: kubernetes: unknown table; everything stands below settings"},
		"broken TOML":            {"[settings.kubernetes]\ncluster-name = a\n", "2: it is not TOML: unexpected character U+0061 'a' at start of value"},
		// Windows
		"AWS's own":          {"<powershell>\n[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n& $EKSBootstrapScriptFile -EKSClusterName \"a\" -KubeletExtraArgs '--v=2' 3>&1 4>&1 5>&1 6>&1\n</powershell>\n", ""},
		"a wrong parameter":  {"<powershell>\n& $EKSBootstrapScriptFile `\n  -EKSClusterName 'a' `\n  -ClusterCA 'x'\n</powershell>", "4: -ClusterCA: Start-EKSBootstrap.ps1 takes no such parameter; did you mean Base64ClusterCA?"},
		"Windows' values":    {"<powershell>\n& C:\\EKS\\Start-EKSBootstrap.ps1 -EKSClusterName 'a b' -APIServerEndpoint a -Base64ClusterCA '<>' `\n -DNSClusterIP:a -ServiceCIDR a -ContainerRuntime docker -KubeletExtraArgs\n</powershell>", `2: -EKSClusterName: "a b" is not a cluster name: up to 100 letters, digits, - and _|2: -APIServerEndpoint: "a" must be an address such as https://ABC.gr7.eu-west-1.eks.amazonaws.com|2: -Base64ClusterCA: the value is not base64|3: -KubeletExtraArgs: its value is missing|3: -DNSClusterIP: "a" is no address|3: -ServiceCIDR: "a" is no network such as 10.100.0.0/16|3: -ContainerRuntime: containerd is the only container runtime since Kubernetes 1.24`},
		"PowerShell's end":   {"<powershell>\n& Start-EKSBootstrap.ps1 -EKSClusterName a\n", "1: </powershell> is missing; without it nothing runs"},
		"no name on Windows": {"<powershell>\n& Start-EKSBootstrap.ps1 -DNSClusterIP $ip\n</powershell>", "2: -EKSClusterName: it is missing"},
		"nothing on Windows": {"<powershell>\nWrite-Host 'Start-EKSBootstrap.ps1'\n</powershell>", "nothing calls Start-EKSBootstrap.ps1, so the machine joins no cluster"},
		// Karpenter
		"Karpenter's taint":   {class + "  amiFamily: Custom\n  userData: |\n    #!/bin/bash\n    /etc/eks/bootstrap.sh c\n", "9: warning: spec.userData: the node does not register with the taint karpenter.sh/unregistered:NoExecute: Karpenter 1.0 to 1.2 never registers the node, and with newer versions pods may start before Karpenter has set the node's labels and taints"},
		"the taint in config": {class + "  amiFamily: Custom\n  userData: |\n    " + strings.ReplaceAll(head+whole, "\n", "\n    ") + "  kubelet: {config: {registerWithTaints: [{key: karpenter.sh/unregistered, effect: NoExecute}]}}\n", ""},
		"no user data":        {class + "  amiFamily: Custom\n", "8: spec.userData: is missing; with amiFamily Custom Karpenter writes none, and the machine joins no cluster"},
		"no terms":            {"apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nspec:\n  amiFamily: AL2023\n", "4: spec.subnetSelectorTerms: is missing; Karpenter refuses the class|4: spec.securityGroupSelectorTerms: is missing; Karpenter refuses the class|4: spec.amiSelectorTerms: is missing; Karpenter refuses the class|4: spec.role: is missing; Karpenter refuses a class without role and instanceProfile"},
		"merged by Karpenter": {class + "  amiFamily: AL2023\n  userData: |\n    " + strings.ReplaceAll(head, "\n", "\n    ") + "  kubelte: {}\n", "9: warning: spec.userData: Karpenter merges it with its own unless amiFamily is Custom|13: spec.kubelte: unknown field; did you mean kubelet?"},
		"of no family":        {class + "  amiFamily: Custom\n  userData: hello\n", "9: spec.userData: the family of the user data is not recognized|9: warning: spec.userData: the node does not register with the taint karpenter.sh/unregistered:NoExecute: Karpenter 1.0 to 1.2 never registers the node, and with newer versions pods may start before Karpenter has set the node's labels and taints"},
		// eksctl
		"eksctl's default":     {groups + "- " + ami + "\n  amiFamily: AmazonLinux2023\n", ""},
		"no override":          {groups + "- " + ami + "\n  amiFamily: Ubuntu2204\n", "5: nodeGroups[0].overrideBootstrapCommand: is missing; eksctl demands it for your own image of Ubuntu2204"},
		"no family":            {groups + "- " + ami + "\n", "5: nodeGroups[0].amiFamily: is missing; eksctl cannot tell it from an image's id"},
		"another cluster":      {groups + "- " + ami + "\n  amiFamily: AmazonLinux2\n  overrideBootstrapCommand: |\n    #!/bin/bash\n    /etc/eks/bootstrap.sh b\n", "7: nodeGroups[0].overrideBootstrapCommand: it joins the cluster b, and metadata.name is a"},
		"a part of NodeConfig": {groups + "- " + ami + "\n  amiFamily: AmazonLinux2023\n  overrideBootstrapCommand: |\n    " + strings.ReplaceAll(head, "\n", "\n    ") + "  instance: {localStorage: {strategy: RAID1}}\n", `11: spec.instance.localStorage.strategy: unknown value "RAID1"; did you mean RAID0?`},
		"eksctl's Windows":     {groups + "- amiFamily: WindowsServer2022FullContainer\n  " + ami + "\n  overrideBootstrapCommand: |\n    & $EKSBootstrapScriptFile -EKSClusterName \"$EKSClusterName\" -KubeletExtraArgs \"$KubeletExtraArgs\" 3>&1 4>&1\n", ""},
		"a Windows mistake":    {groups + "- amiFamily: WindowsServer2022FullContainer\n  " + ami + "\n  overrideBootstrapCommand: |\n    Write-Host a\n    & $EKSBootstrapScriptFile -EKSClusterNme a\n", "9: -EKSClusterNme: Start-EKSBootstrap.ps1 takes no such parameter; did you mean EKSClusterName?|9: -EKSClusterName: it is missing"},
		"a hash table":         {"<powershell>\n$p = @{EKSClusterName = 'a'}\n& $EKSBootstrapScriptFile @p 3>&1\n</powershell>\n", ""},
		"Windows, no call":     {groups + "- amiFamily: WindowsServer2022FullContainer\n  " + ami + "\n  overrideBootstrapCommand: Write-Host a\n", "nothing calls Start-EKSBootstrap.ps1, so the machine joins no cluster"},
		"Windows, managed":     {strings.Replace(groups, "nodeGroups", "managedNodeGroups", 1) + "- amiFamily: WindowsServer2022FullContainer\n  overrideBootstrapCommand: a\n", "6: managedNodeGroups[0].overrideBootstrapCommand: eksctl refuses the field for WindowsServer2022FullContainer"},
		"eksctl, Bottlerocket": {groups + "- amiFamily: Bottlerocket\n  overrideBootstrapCommand: a\n", "6: nodeGroups[0].overrideBootstrapCommand: eksctl refuses the field for Bottlerocket"},
		"eksctl's names":       {"apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nnodeGroups:\n- ami: ami-xyz\n", `1: metadata.name: is missing|1: metadata.region: is missing|4: nodeGroups[0].ami: "ami-xyz" is no image's id`},
	} {
		t.Run(name, func(t *testing.T) {
			family := ""
			want := c.want
			if name == "no boundary" {
				family, want = "al2", "nothing calls /etc/eks/bootstrap.sh, so the machine joins no cluster|1: Content-Type: the boundary is missing"
			}
			r := checked(t, []byte(withAuthority(c.text)), family)
			said := show.Each(r.Problems, func(p Problem) string { return p.String() })
			assert.Equal(t, want, strings.Join(said, "|"))
		})
	}
}

// The example in AWS's documentation has a part after the end of the message.
func TestPartAfterTheEndOfAWSsExample(t *testing.T) {
	text := testkit.Content(t, "../bootstrap/nodeconfig/testdata/example.mime")
	r := checked(t, []byte(text), "")
	require.Len(t, r.Problems, 2)
	assert.Equal(t, "14: spec.cluster.certificateAuthority: it holds no PEM certificate; use certificateAuthority.data of `aws eks describe-cluster` as it is", r.Problems[0].String())
	assert.Contains(t, r.Problems[1].String(), "which in line 17 ended the last; no program reads the part")
	assert.True(t, r.Failed())
}

func packed(text string) string { return string(testkit.Gzip(text)) }

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
		"a written script, packed":      {"#cloud-config\nwrite_files:\n- path: /opt/bootstrap.sh\n  encoding: gz+b64\n  content: " + inBase64(packed("#!/bin/bash\n"+call)) + "\nruncmd:\n- [sudo, /opt/bootstrap.sh, --an-own-flag]\n", ""},
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
		"gzip in a part":                {multi(part + "\n" + packed(config) + "\n"), ""},
		"base64 in a part":              {multi(part + "\n" + inBase64(config) + "\n"), ""},
		"both in a part":                {multi(part + "\n" + inBase64(packed(config)) + "\n"), ""},
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
		"a packed part":                 {multi("Content-Type: application/x-gzip\nContent-Transfer-Encoding: base64\n\n" + inBase64(packed(script+call)) + "\n"), ""},
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
			assert.True(t, checked(t, []byte(c.text), c.family).Failed(), "without merging, the machine must not pass")
		})
	}
	assert.Equal(t, "error: the user data is empty: without the user data of EKS or Karpenter, the machine joins no cluster", said(t, "\n", ""))
}

// With this user data, a node does not join, or joins with other settings than
// intended.
func TestUserDataThatFailsOnNodesIsRefused(t *testing.T) {
	config := head + whole
	kubelet := func(lines string) string {
		return config + "  kubelet:\n    config:\n      " + strings.ReplaceAll(lines, "\n", "\n      ") + "\n"
	}
	flag := func(value string) string {
		return script + "/etc/eks/bootstrap.sh c --kubelet-extra-args '" + value + "'\n"
	}
	other := strings.Replace(config, "name: a", "name: b", 1)
	for name, c := range map[string]struct{ text, want string }{
		// Shell
		"an open quote":              {script + "echo \"a\n" + call, "2: the shell cannot run the script: reached EOF without closing quote `\"`"},
		"an open condition":          {script + "if true; then\n" + call, "2: the shell cannot run the script: `if` statement must end with `fi`"},
		"an open here-document":      {script + "cat <<EOF\na\n", "nothing calls /etc/eks/bootstrap.sh, so the machine joins no cluster|2: warning: unclosed here-document `EOF`"},
		"a space after a backslash":  {script + "/etc/eks/bootstrap.sh c \\ \n  --use-max-pods false\n", "2: a space follows the \\ at the end of the line, so the command ends here; remove the space|3: --use-max-pods is run as a command of its own; the line before must end in \\"},
		"no backslash":               {script + "/etc/eks/bootstrap.sh c\n  --use-max-pods false\n", `3: --use-max-pods is run as a command of its own; the line before must end in \`},
		"a comment between":          {script + "/etc/eks/bootstrap.sh c \\\n  # pods\n  --use-max-pods false\n", `4: --use-max-pods is run as a command of its own; the line before must end in \`},
		"in a command":               {"#cloud-config\nruncmd:\n- echo 'a\n- " + call, "3: the shell cannot run the script: reached EOF without closing quote `'`"},
		"in a written script":        {"#cloud-config\nwrite_files:\n- path: /a.sh\n  content: |\n    #!/bin/bash\n    echo (\nruncmd:\n- /a.sh\n", "nothing calls /etc/eks/bootstrap.sh, so the machine joins no cluster|6: the shell cannot run the script: `foo(` must be followed by `)`"},
		"no #!":                      {multi("Content-Type: text/x-shellscript\n\necho\n", "Content-Type: text/x-shellscript\n\n"+script+call), "7: " + shebangAdvice},
		"no #! beside a NodeConfig":  {multi(nodePart, "Content-Type: text/x-shellscript\n\necho\n"), "14: " + shebangAdvice},
		"a blank line before #!":     {multi("Content-Type: text/x-shellscript\n\n\n" + script + call), "7: blank lines or spaces precede #!, so the script cannot run; #! must be the first two bytes"},
		"a mark before #!":           {"\ufeff" + script + call, "1: a byte-order mark precedes #!, so the script cannot run; save the file as UTF-8 without a byte-order mark"},
		"a boothook without #!":      {multi("Content-Type: text/cloud-boothook\n\n#cloud-boothook\necho\n", "Content-Type: text/x-shellscript\n\n"+script+call), "8: " + shebangAdvice},
		"MIME after a blank line":    {"\n" + multi("Content-Type: text/x-shellscript\n\n"+script+call), "1: cloud-init does not recognize MIME after blank lines or spaces; the MIME header must begin with the first byte"},
		"a mark before cloud-config": {"\ufeff#cloud-config\nruncmd: [[/etc/eks/bootstrap.sh, c]]\n", "1: a byte-order mark precedes the text, so cloud-init does not recognize it; save the file as UTF-8 without a byte-order mark"},
		// PowerShell
		"an open quote on Windows": {powers + "-KubeletExtraArgs '--v=2" + powersEnd, "2: a quote is not closed, so PowerShell does not run the script"},
		"a space after a backquote": {"<powershell>\n& Start-EKSBootstrap.ps1 -EKSClusterName a ` \n  -DNSClusterIP 10.0.0.10\n</powershell>",
			"2: a space follows the ` at the end of the line, so the command ends here; remove the space|3: -DNSClusterIP begins a command of its own; the line before must end in `"},
		// The kubelet's configuration
		"a misspelt field":        {kubelet("maxPod: 10"), "7: warning: spec.kubelet.config.maxPod: unknown field of the kubelet, which ignores it; did you mean maxPods?"},
		"another case":            {kubelet("maxpods: 10"), "7: warning: spec.kubelet.config.maxpods: unknown field of the kubelet, which ignores it; did you mean maxPods?"},
		"a text for a number":     {kubelet("maxPods: many"), `7: spec.kubelet.config.maxPods: must be an integer of 32 bits, not the text "many"`},
		"a number in quotes":      {kubelet("maxPods: '110'"), `7: spec.kubelet.config.maxPods: must be an integer of 32 bits, not the text "110"`},
		"a fraction":              {kubelet("maxPods: 1.5"), `7: spec.kubelet.config.maxPods: must be an integer of 32 bits, not "1.5"`},
		"a large number":          {kubelet("maxPods: 99999999999"), `7: spec.kubelet.config.maxPods: must be an integer of 32 bits, not "99999999999"`},
		"a duration":              {kubelet("shutdownGracePeriod: 30"), `7: spec.kubelet.config.shutdownGracePeriod: must be a duration in quotes, such as 30s or 5m, not "30"`},
		"an object for a list":    {kubelet("clusterDNS: 10.0.0.10"), "7: spec.kubelet.config.clusterDNS: must be a list, not text"},
		"a field in a field":      {kubelet("authentication:\n  anonymus: {enabled: false}"), "8: warning: spec.kubelet.config.authentication.anonymus: unknown field of the kubelet, which ignores it; did you mean anonymous?"},
		"percent percent":         {kubelet("evictionHard:\n  nodefs.available: 12%%"), `8: spec.kubelet.config.evictionHard.nodefs.available: "12%%" must be a percentage such as 10% or a quantity such as 100Mi`},
		"a signal":                {kubelet("evictionHard:\n  memory.avail: 12%"), `8: spec.kubelet.config.evictionHard.memory.avail: unknown eviction signal "memory.avail"; did you mean memory.available?`},
		"a reservation":           {kubelet("kubeReserved: {memory: 100MB}"), `7: spec.kubelet.config.kubeReserved.memory: "100MB" must be a quantity such as 100m or 512Mi`},
		"a reservation's name":    {kubelet("systemReserved: {mem: 100Mi}"), `7: spec.kubelet.config.systemReserved.mem: nothing is reserved of "mem"; did you mean memory?`},
		"a reservation in number": {kubelet("kubeReserved: {cpu: 1}"), `7: spec.kubelet.config.kubeReserved.cpu: must be text in quotes, not "1"`},
		"image collection":        {kubelet("imageGCHighThresholdPercent: 101"), "7: spec.kubelet.config.imageGCHighThresholdPercent: 101 must be from 0 to 100"},
		"a choice":                {kubelet("cpuManagerPolicy: Static"), `7: spec.kubelet.config.cpuManagerPolicy: unknown value "Static"; did you mean static?`},
		"a taint":                 {kubelet("registerWithTaints:\n- {key: a, effect: Never}"), `8: spec.kubelet.config.registerWithTaints[0]: "a:Never" must be key=value:Effect or key:Effect, with NoSchedule, PreferNoSchedule or NoExecute`},
		"another kind": {kubelet("apiVersion: kubelet.config.k8s.io/v1\nkind: Kubelet"), `7: spec.kubelet.config.apiVersion: unknown value "kubelet.config.k8s.io/v1"; ` +
			`did you mean kubelet.config.k8s.io/v1beta1?|8: spec.kubelet.config.kind: unknown value "Kubelet"; did you mean KubeletConfiguration?`},
		"Bottlerocket's choice":   {toml3 + "cloud-provider = 'gce'\n", `5: settings.kubernetes.cloud-provider: unknown value "gce"; known are aws, external`},
		"Bottlerocket's eviction": {toml3 + "[settings.kubernetes.eviction-hard]\n\"memory.available\" = '12%%'\n", `6: settings.kubernetes.eviction-hard."memory.available": "12%%" must be a percentage such as 10% or a quantity such as 100Mi`},
		"Bottlerocket's percent":  {toml3 + "image-gc-high-threshold-percent = '85%'\n", "5: settings.kubernetes.image-gc-high-threshold-percent: it must be a number, not text"},
		"below the default low":   {kubelet("imageGCHighThresholdPercent: 70"), "7: spec.kubelet.config.imageGCHighThresholdPercent: imageGCLowThresholdPercent 80 must be less than imageGCHighThresholdPercent 70"},
		"reserved CPUs":           {kubelet("reservedSystemCPUs: 0-1"), `7: spec.kubelet.config.reservedSystemCPUs: reservedSystemCPUs excludes the reserved cgroups that NodeConfig sets; add systemReservedCgroup: "" and kubeReservedCgroup: ""`},
		"reserved CPUs alone":     {kubelet("reservedSystemCPUs: 0-1\nsystemReservedCgroup: ''\nkubeReservedCgroup: ''"), ""},
		"a short shutdown":        {kubelet("shutdownGracePeriod: 20s"), "7: warning: spec.kubelet.config.shutdownGracePeriod: shutdownGracePeriodCriticalPods 30s must be at most shutdownGracePeriod 20s: kubelet 1.34 and newer"},
		"parallel pulls":          {kubelet("maxParallelImagePulls: 5\nserializeImagePulls: true"), "7: spec.kubelet.config.maxParallelImagePulls: maxParallelImagePulls above 1 needs serializeImagePulls: false"},
		"one log file":            {kubelet("containerLogMaxFiles: 1"), "7: warning: spec.kubelet.config.containerLogMaxFiles: 1 must be at least 2: kubelet 1.33 and newer"},
		"a negative rate":         {kubelet("kubeAPIQPS: -5"), "7: spec.kubelet.config.kubeAPIQPS: -5 must be at least 0"},
		"swap":                    {kubelet("memorySwap: {swapBehavior: UnlimitedSwap}"), `7: spec.kubelet.config.memorySwap.swapBehavior: unknown value "UnlimitedSwap"; known are NoSwap, LimitedSwap`},
		"an unknown gate":         {kubelet("featureGates: {NodeSwop: true}"), "7: spec.kubelet.config.featureGates.NodeSwop: the kubelet has no such feature gate and does not start; did you mean NodeSwap?"},
		"a fixed gate":            {kubelet("featureGates: {NodeSwap: false}"), "7: warning: spec.kubelet.config.featureGates.NodeSwap: the feature gate is fixed to true: kubelet 1.34 and newer"},
		"a field and a flag":      {kubelet("imageGCHighThresholdPercent: 70") + "    flags: [--image-gc-low-threshold=60]\n", ""},
		// The kubelet's flags
		"a verbosity":              {flag("--v=x"), `2: --kubelet-extra-args: --v: "x" must be a number`},
		"a flag's choice":          {flag("--topology-manager-policy=foo"), `2: --kubelet-extra-args: topologyManagerPolicy: unknown value "foo"; known are none, best-effort, restricted, single-numa-node`},
		"a choice in a NodeConfig": {config + "  kubelet:\n    flags:\n    - --v=4 --topology-manager-policy=foo\n", `7: spec.kubelet.flags[0]: topologyManagerPolicy: unknown value "foo"; known are none, best-effort, restricted, single-numa-node`},
		"a reserved CPU":           {flag("--reserved-cpus=0"), ""},
		// The environment of bootstrap.sh
		"an exported variable":     {script + "export CONTAINER_RUNTIME=docker\n" + call, `3: the environment variable CONTAINER_RUNTIME="docker": containerd is the only container runtime since Kubernetes 1.24`},
		"a variable of the call":   {script + "USE_MAX_PODS=maybe " + call, `2: the environment variable USE_MAX_PODS="maybe": must be true or false`},
		"arguments in a variable":  {script + "KUBELET_EXTRA_ARGS='--v=x'\nexport KUBELET_EXTRA_ARGS\n" + call, `4: --kubelet-extra-args: --v: "x" must be a number`},
		"not exported":             {script + "CONTAINER_RUNTIME=docker\n" + call, ""},
		"declared":                 {script + "declare -rx CONTAINER_RUNTIME=docker\n" + call, `3: the environment variable CONTAINER_RUNTIME="docker": containerd is the only container runtime since Kubernetes 1.24`},
		"declared, not exported":   {script + "declare -r CONTAINER_RUNTIME=docker\n" + call, ""},
		"all are exported":         {script + "set -ea\nUSE_MAX_PODS=maybe\n" + call, `4: the environment variable USE_MAX_PODS="maybe": must be true or false`},
		"allexport":                {script + "USE_MAX_PODS=maybe\nset -o allexport\n" + call, ""},
		"exported and unset":       {script + "export USE_MAX_PODS=maybe\nunset USE_MAX_PODS\n" + call, ""},
		"a flag wins":              {script + "export USE_MAX_PODS=maybe\n/etc/eks/bootstrap.sh c --use-max-pods false\n", ""},
		"an Outpost without ID":    {script + "/etc/eks/bootstrap.sh c --apiserver-endpoint https://a --b64-cluster-ca " + authority + " --enable-local-outpost true\n", "2: --enable-local-outpost: true needs --cluster-id"},
		"a network, no prefix":     {script + "/etc/eks/bootstrap.sh c --service-ipv4-cidr 10.100.0.0\n", ""},
		"no network":               {script + "/etc/eks/bootstrap.sh c --service-ipv4-cidr None\n", ""},
		"an unknown flag":          {flag("--max-pod=10"), "2: --kubelet-extra-args: unknown flag --max-pod of the kubelet; did you mean --max-pods?"},
		"no flag":                  {flag("node-labels=a=b"), `2: --kubelet-extra-args: "node-labels=a=b" is not a flag of the kubelet; a flag begins with --`},
		"a flag without value":     {flag("--v=2 --node-labels"), "2: --kubelet-extra-args: --node-labels: the value is missing"},
		"a removed flag":           {flag("--container-runtime=remote"), "2: warning: --kubelet-extra-args: --container-runtime: Kubernetes 1.26 was the last with this flag; newer kubelets do not start with it"},
		"a label with a space":     {flag(`--node-labels="team=a b"`), `2: --kubelet-extra-args: --node-labels: "a b" is no value for team: up to 63 letters, digits, -, _ and .`},
		"a space between labels":   {flag("--node-labels=a=b, c=d"), `2: --kubelet-extra-args: "c=d" is not a flag of the kubelet; a flag begins with --`},
		"a flag's percent":         {flag("--eviction-hard=memory.available<12%%"), `2: --kubelet-extra-args: --eviction-hard: "12%%" must be a percentage such as 10% or a quantity such as 100Mi`},
		"a flag's reservation":     {flag("--kube-reserved=cpu:100m"), `2: --kubelet-extra-args: --kube-reserved: "cpu:100m" must be name=value`},
		"an unknown flag, Windows": {powers + "-KubeletExtraArgs '--node-label=a=b'" + powersEnd, "2: -KubeletExtraArgs: unknown flag --node-label of the kubelet; did you mean --node-labels?"},
		"in a NodeConfig":          {config + "  kubelet:\n    flags:\n    - --nope=1\n", "7: spec.kubelet.flags[0]: unknown flag --nope of the kubelet; see kubelet --help"},
		"pods in two ways":         {kubelet("maxPods: 10") + "    flags: [--max-pods=20]\n", "8: warning: spec.kubelet.flags[0]: maxPods is 20 here and 10 elsewhere"},
		// The cluster
		"a CA that is text":        {head + "  cluster: {name: a, apiServerEndpoint: 'https://a', certificateAuthority: Y2E=, cidr: 10.0.0.0/16}\n", "4: spec.cluster.certificateAuthority: it holds no PEM certificate; use certificateAuthority.data of `aws eks describe-cluster` as it is"},
		"a CA of bootstrap.sh":     {script + "/etc/eks/bootstrap.sh c --apiserver-endpoint https://a \\\n --b64-cluster-ca Y2E=\n", "3: --b64-cluster-ca: it holds no PEM certificate; use certificateAuthority.data of `aws eks describe-cluster` as it is"},
		"a CA of a variable":       {script + "CA=Y2E=\n/etc/eks/bootstrap.sh c --apiserver-endpoint https://a --b64-cluster-ca $CA\n", "3: --b64-cluster-ca: it holds no PEM certificate; use certificateAuthority.data of `aws eks describe-cluster` as it is"},
		"a CA encoded twice":       {strings.Replace(config, "YQ==", base64.StdEncoding.EncodeToString([]byte(authority)), 1), "4: spec.cluster.certificateAuthority: it holds no PEM certificate; use certificateAuthority.data of `aws eks describe-cluster` as it is"},
		"a CA of Bottlerocket":     {strings.Replace(toml3, "YQ==", "Y2E=", 1), "4: settings.kubernetes.cluster-certificate: it holds no PEM certificate; use certificateAuthority.data of `aws eks describe-cluster` as it is"},
		"a CA of Windows":          {powers + "-Base64ClusterCA Y2E=" + powersEnd, "2: -Base64ClusterCA: it holds no PEM certificate; use certificateAuthority.data of `aws eks describe-cluster` as it is"},
		"two clusters":             {multi(nodePart, "Content-Type: application/node.eks.aws\n\n"+other), `17: spec.cluster.name: two NodeConfigs name two clusters, "a" and "b"`},
		"two endpoints":            {multi(nodePart, "Content-Type: application/node.eks.aws\n\n"+strings.Replace(config, "https://a", "https://b", 1)), `17: warning: two NodeConfigs contradict each other: spec.cluster.apiServerEndpoint is "https://a" and then "https://b"; the later value is used`},
		"Karpenter's kubelet":      {class + "  amiFamily: AL2023\n  kubelet:\n    maxPod: 10\n    evictionHard: {memory.available: 5%%}\n    podsPerCore: few\n", `10: spec.kubelet.maxPod: unknown field; did you mean maxPods?|11: spec.kubelet.evictionHard.memory.available: "5%%" must be a percentage such as 10% or a quantity such as 100Mi|12: spec.kubelet.podsPerCore: must be an integer of 32 bits, not the text "few"`},
		"Karpenter's other number": {class + "  amiFamily: Custom\n  kubelet: {maxPods: 10}\n  userData: |\n    #!/bin/bash\n    /etc/eks/bootstrap.sh c --kubelet-extra-args '--max-pods=20 --register-with-taints=karpenter.sh/unregistered:NoExecute'\n", "10: warning: spec.userData: the node takes 20 pods, and spec.kubelet.maxPods is 10: Karpenter places pods by the latter"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, said(t, c.text, "")) })
	}
}

package userdata

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		"Windows' values":    {"<powershell>\n& C:\\EKS\\Start-EKSBootstrap.ps1 -EKSClusterName 'a b' -APIServerEndpoint a -Base64ClusterCA '<>' `\n -DNSClusterIP:a -ServiceCIDR a -ContainerRuntime docker -KubeletExtraArgs\n</powershell>", `2: -EKSClusterName: "a b" must be up to 100 letters, digits, - and _|2: -APIServerEndpoint: "a" must be an address such as https://ABC.gr7.eu-west-1.eks.amazonaws.com|2: -Base64ClusterCA: the value is not base64|3: -KubeletExtraArgs: its value is missing|3: -DNSClusterIP: "a" is no address|3: -ServiceCIDR: "a" is no network such as 10.100.0.0/16|3: -ContainerRuntime: containerd is the only container runtime since Kubernetes 1.24`},
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
			r, err := Check([]byte(withAuthority(c.text)), family)
			require.NoError(t, err)
			var said []string
			for _, p := range r.Problems {
				said = append(said, p.String())
			}
			assert.Equal(t, want, strings.Join(said, "|"))
		})
	}
}

// The example in AWS's documentation has a part after the end of the message.
func TestPartAfterTheEndOfAWSsExample(t *testing.T) {
	text, err := os.ReadFile("../bootstrap/nodeconfig/testdata/example.mime")
	require.NoError(t, err)
	r, err := Check(text, "")
	require.NoError(t, err)
	require.Len(t, r.Problems, 2)
	assert.Equal(t, "14: spec.cluster.certificateAuthority: it holds no PEM certificate; use certificateAuthority.data of `aws eks describe-cluster` as it is", r.Problems[0].String())
	assert.Contains(t, r.Problems[1].String(), "which in line 17 ended the last; no program reads the part")
	assert.True(t, r.Failed())
}

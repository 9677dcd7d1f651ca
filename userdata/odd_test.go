package userdata

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

const (
	nodePart  = "Content-Type: application/node.eks.aws\n\n" + head + whole
	toml3     = "[settings.kubernetes]\ncluster-name = 'a'\napi-server = 'https://a'\ncluster-certificate = 'YQ=='\n"
	powers    = "<powershell>\n& Start-EKSBootstrap.ps1 -EKSClusterName a "
	powersEnd = "\n</powershell>\n"
)

// merges is the warning about an EC2NodeClass with user data. config is the beginning
// of an eksctl file, up to a node group's image.
const (
	merges = "spec.userData: Karpenter merges it with its own unless amiFamily is Custom"
	config = "kind: ClusterConfig\nmetadata: {name: c, region: r}\nnodeGroups:\n- name: a\n  ami: ami-0123456789abcdef0\n"
)

// nodeadm returns a script that writes a NodeConfig with a here-document, and joins
// with it. word is the here-document's delimiter.
func nodeadm(word, config string) string {
	return script + "cat > /etc/node.yaml <<" + word + "\n" + config + "EOF\nnodeadm init --config-source file:///etc/node.yaml\n"
}

func said(t *testing.T, text, family string) string {
	t.Helper()
	r, err := Check([]byte(withAuthority(text)), family)
	if err != nil {
		return "error: " + err.Error()
	}
	list := show.Each(r.Problems, func(p Problem) string { return p.String() })
	return strings.Join(list, "|")
}

// User data has mistakes of editors, templates and copied examples.
func TestCommonMistakesAreFound(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		// Labels, taints and numbers: the kubelet ends at once when they are wrong.
		"a taint without effect":                   {script + "/etc/eks/bootstrap.sh c \\\n  --kubelet-extra-args '--node-labels=a=b --register-with-taints=taint1=true'\n", `3: --kubelet-extra-args: --register-with-taints: "taint1=true" must be key=value:Effect or key:Effect, with NoSchedule, PreferNoSchedule or NoExecute`},
		"a placeholder":                            {script + "/etc/eks/bootstrap.sh c --use-max-pods false --kubelet-extra-args '--max-pods=my-max-pods-value'\n", `2: --kubelet-extra-args: --max-pods: "my-max-pods-value" must be a number`},
		"a label of Kubernetes":                    {script + "/etc/eks/bootstrap.sh c --kubelet-extra-args '--node-labels=node-role.kubernetes.io/worker=,node.kubernetes.io/lifecycle=spot,topology.kubernetes.io/zone=a'\n", `2: --kubelet-extra-args: --node-labels: "node-role.kubernetes.io/worker" is Kubernetes' own, and no node may give it to itself; put it there with kubectl label`},
		"a variable in single quotes":              {script + "/etc/eks/bootstrap.sh c --kubelet-extra-args '--node-labels=a=$V'\n", `2: --kubelet-extra-args: --node-labels: "$V" is no value for a: up to 63 letters, digits, -, _ and .`},
		"braces in single quotes":                  {script + "/etc/eks/bootstrap.sh c --kubelet-extra-args '--node-labels=a=${V}'\n", `2: --kubelet-extra-args: --node-labels: "${V}" is no value for a: up to 63 letters, digits, -, _ and .`},
		"a command in single quotes":               {script + "/etc/eks/bootstrap.sh c --kubelet-extra-args '--node-labels=a=`id`'\n", "2: --kubelet-extra-args: --node-labels: \"`id`\" is no value for a: up to 63 letters, digits, -, _ and ."},
		"an escaped variable":                      {script + "/etc/eks/bootstrap.sh c --kubelet-extra-args \"--register-with-taints=a=\\$V:NoSchedule\"\n", `2: --kubelet-extra-args: --register-with-taints: "a=$V:NoSchedule" must be key=value:Effect or key:Effect, with NoSchedule, PreferNoSchedule or NoExecute`},
		"arguments in single quotes":               {script + "/etc/eks/bootstrap.sh c --kubelet-extra-args '$ARGS'\n", `2: --kubelet-extra-args: "$ARGS" is not a flag of the kubelet; a flag begins with --`},
		"a flag in single quotes":                  {script + "/etc/eks/bootstrap.sh c --kubelet-extra-args '--$FLAG=a'\n", `2: --kubelet-extra-args: unknown flag --$FLAG of the kubelet; see kubelet --help`},
		"a variable in PowerShell's single quotes": {powers + "`\n  -KubeletExtraArgs '--node-labels=a=$V'" + powersEnd, `3: -KubeletExtraArgs: --node-labels: "$V" is no value for a: up to 63 letters, digits, -, _ and .`},
		"a label in two words":                     {script + "/etc/eks/bootstrap.sh c --kubelet-extra-args '--node-labels a'\n", `2: --kubelet-extra-args: --node-labels: "a" must be key=value`},
		"a variable in labels":                     {script + "/etc/eks/bootstrap.sh c --kubelet-extra-args \"--node-labels=$LABELS --max-pods=${PODS}\"\n", ""},
		"NodeConfig's flags":                       {head + whole + "  kubelet:\n    flags:\n    - --v=2\n    - --node-labels=a=b,c\n    - --register-with-taints=x:Never\n", `8: spec.kubelet.flags[1]: --node-labels: "c" must be key=value|9: spec.kubelet.flags[2]: --register-with-taints: "x:Never" must be key=value:Effect or key:Effect, with NoSchedule, PreferNoSchedule or NoExecute`},
		"flags of the second part":                 {multi(nodePart, "Content-Type: application/node.eks.aws\n\n"+head+"  kubelet:\n    flags: ['--max-pods=many']\n"), `18: spec.kubelet.flags[0]: --max-pods: "many" must be a number`},
		"Windows' flags":                           {powers + "`\n  -KubeletExtraArgs '--node-labels=k8s.io/a=b'" + powersEnd, `3: -KubeletExtraArgs: --node-labels: "k8s.io/a" is Kubernetes' own, and no node may give it to itself; put it there with kubectl label`},
		"Bottlerocket's labels":                    {toml3 + "[settings.kubernetes.node-labels]\n'a b' = 'c'\n'app.kubernetes.io/x' = 'y'\n", `6: settings.kubernetes.node-labels."a b": "a b" is no label's name|7: settings.kubernetes.node-labels."app.kubernetes.io/x": "app.kubernetes.io/x" is Kubernetes' own, and no node may give it to itself; put it there with kubectl label`},
		"taints by Bottlerocket":                   {toml3 + "[settings.kubernetes.node-taints]\na = ['b:NoSchedule', 'c:Never']\n", `6: settings.kubernetes.node-taints.a: "c:Never" must be value:Effect, with NoSchedule, PreferNoSchedule or NoExecute`},
		// Twice.
		"NodeConfig's field twice": {head + "  cluster:\n    name: a\n    name: b\n", "6: spec.cluster.name: the field is set twice; first in line 5"},
		"a setting twice":          {toml3 + "api-server = 'https://b'\n", "5: it is not TOML: key api-server is already defined"},
		"runcmd twice":             {"#cloud-config\nruncmd:\n- /etc/eks/bootstrap.sh a\nruncmd:\n- echo\n", "4: runcmd: it stands here a second time, after line 2; only this one is read"},
		"userData twice":           {class + "  amiFamily: AL2023\n  tags: {a: b, a: c}\n", "9: spec.tags.a: it stands here a second time, after line 9; only this one is read"},
		"a parameter twice":        {powers + "-EKSClusterName b" + powersEnd, "2: -EKSClusterName: it is given twice"},
		// Spaces.
		"tabs in YAML":           {head + "\tcluster: {}\n", "4: found character that cannot start any token"},
		"tabs in a cloud-config": {"#cloud-config\nruncmd:\n\t- a\n", "3: found character that cannot start any token"},
		"tabs in a script":       {script + "\t/etc/eks/bootstrap.sh\tc\t\\\n\t\t--nope\tx\n", "3: --nope: unknown flag"},
		"CRLF in TOML":           {strings.ReplaceAll(toml3+"max-pods = 'x'\n", "\n", "\r\n"), "5: settings.kubernetes.max-pods: it must be a number, not text"},
		"CRLF in NodeConfig":     {strings.ReplaceAll(multi(nodePart), "\n", "\r\n"), ""},
		"CRLF in a cloud-config": {"#cloud-config\r\nruncmd:\r\n- /etc/eks/bootstrap.sh a --x y\r\n", "3: --x: unknown flag"},
		"CRLF in a part":         {strings.ReplaceAll(multi("Content-Type: text/x-shellscript\n\n#!/bin/sh\n/etc/eks/bootstrap.sh c --nope x\n"), "\n", "\r\n"), "7: warning: the lines end with CR LF; cloud-init corrects that, other programs that run the script do not|8: --nope: unknown flag"},
		"CRLF on Windows":        {strings.ReplaceAll(powers+"`\n -Nope x"+powersEnd, "\n", "\r\n"), "3: -Nope: Start-EKSBootstrap.ps1 takes no such parameter; known are EKSClusterName, KubeletExtraArgs, KubeProxyExtraArgs, Endpoint, APIServerEndpoint, Base64ClusterCA, DNSClusterIP, ServiceCIDR, ExcludedSnatCIDRs, ContainerRuntime"},
		// MIME.
		"eksctl's boundary":          {"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=//\n\n--//\n" + nodePart + "\n--//--\n", "warning: Amazon's image does not read the user data: the text is not read as MIME (mime: invalid media parameter), and is no YAML: yaml: line 5: could not find expected ':'"},
		"a boundary within the text": {multi("Content-Type: text/x-shellscript\n\n#!/bin/sh\n# --X\n echo --X--\n/etc/eks/bootstrap.sh c --nope x\n"), "10: --nope: unknown flag"},
		"parts within a part":        {multi("Content-Type: multipart/mixed; boundary=Y\n\n--Y\n" + nodePart + "  kubelte: {}\n--Y--\n"), "14: spec.kubelte: unknown field; did you mean kubelet?"},
		"an unknown content type":    {multi("Content-Type: application/node.eks.aw\n\n"+head, nodePart), "5: warning: Content-Type: nothing reads parts of the type application/node.eks.aw; did you mean application/node.eks.aws?"},
		"a boothook":                 {multi("Content-Type: text/cloud-boothook\n\n#cloud-boothook\n#!/bin/sh\necho\n", "Content-Type: text/x-shellscript\n\n#!/bin/sh\n/etc/eks/bootstrap.sh c\n"), ""},
		"a part in base64":           {multi("Content-Type: text/x-shellscript\nContent-Transfer-Encoding: base64\n\n" + base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n/etc/eks/bootstrap.sh c --nope x\n")) + "\n"), "8: --nope: unknown flag (line 2 of the decoded text)"},
		"a part without empty line":  {"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n--X\nContent-Type: text/x-shellscript\n#!/bin/sh\n/etc/eks/bootstrap.sh c --nope x\n--X--\n", "6: --nope: unknown flag"},
		"NodeConfig in the header":   {"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n--X\nContent-Type: application/node.eks.aws\n" + head + whole + "--X--\n", "6: an empty line must stand between the part's Content-Type and its NodeConfig"},
		"a spoilt ending":            {"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n--X\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n/etc/eks/bootstrap.sh c\n--X--\\\n", "9: --X-- ends the last part only on a line of its own"},
		// Scripts that write a NodeConfig.
		"a NodeConfig in a script":      {nodeadm("'EOF'", head+whole), ""},
		"and what is wrong in it":       {nodeadm("EOF", head+whole+"  kubelte: {}\n"), "7: spec.kubelte: unknown field; did you mean kubelet?"},
		"and what is missing":           {nodeadm("EOF", head+"  cluster: {name: a, cidr: 10.0.0.0/16, certificateAuthority: YQ==}\n"), "6: spec.cluster.apiServerEndpoint: is missing; `aws eks describe-cluster` shows the value"},
		"and what only a shell knows":   {nodeadm("EOF", head+"  cluster: {name: $NAME}\n"), ""},
		"and what no shell puts in":     {nodeadm("\\EOF", head+whole+"  instance:\n    environment: {default: {A: $B}}\n    x: {}\n"), "9: spec.instance.x: unknown field; known are environment, localStorage, network"},
		"a part of a NodeConfig":        {script + "cat > /etc/eks/nodeadm.d/x.yaml <<EOF\n" + head + "  kubelet: {flags: ['--max-pods=x']}\nEOF\nnodeadm init -c imds://user-data -c file:///etc/eks/nodeadm.d\n", `6: spec.kubelet.flags[0]: --max-pods: "x" must be a number`},
		"quotes within kubelet's flags": {script + `/etc/eks/bootstrap.sh c --kubelet-extra-args '--register-with-taints="a=b:NoExecute" --node-labels="a b=c"'` + "\n", `2: --kubelet-extra-args: --node-labels: "a b" is no label's name`},
		"quotes within NodeConfig's":    {head + whole + "  kubelet:\n    flags: ['--register-with-taints=\"a=b:NoExecute\"']\n", ""},
		"a hybrid node's":               {head + whole + "  hybrid: {}\n", "5: spec.hybrid: is for machines outside of AWS, which eks-hybrid's nodeadm joins; EC2 instances need no such field"},
		// What a tool merges with its own needs not be whole.
		"Karpenter's Bottlerocket":   {class + "  userData: |\n    [settings.kubernetes]\n    max-pods = 110\n    [settings.kernel]\n    lockdwn = 'none'\n", "8: warning: " + merges + "|12: settings.kernel.lockdwn: unknown setting; did you mean lockdown?"},
		"Karpenter's script":         {class + "  amiFamily: AL2023\n  userData: |\n    #!/bin/sh\n    echo\n", "9: warning: " + merges},
		"Karpenter's Windows":        {class + "  userData: |\n    <powershell>\n    echo\n    </powershell>\n", "8: warning: " + merges},
		"Karpenter's NodeConfig":     {class + "  userData: |\n    " + strings.ReplaceAll(head, "\n", "\n    ") + "  kubelet: {flags: ['--max-pods=x']}\n", `8: warning: ` + merges + `|12: spec.kubelet.flags[0]: --max-pods: "x" must be a number`},
		"a script without #!":        {config + "  amiFamily: AmazonLinux2\n  overrideBootstrapCommand: |\n    /etc/eks/bootstrap.sh c\n", "8: nodeGroups[0].overrideBootstrapCommand: a script begins with #! and the program that runs it, such as #!/bin/bash"},
		"eksctl's script":            {config + "  amiFamily: AmazonLinux2\n  overrideBootstrapCommand: |\n    #!/bin/sh\n    echo\n", "nothing calls /etc/eks/bootstrap.sh, so the machine joins no cluster"},
		"a NodeConfig of no cluster": {head + "  kubelet: {config: {maxPods: 10}}\n", "3: spec.cluster: is missing; only EKS adds it, for managed node groups without an image of their own, and Karpenter, unless amiFamily is Custom"},
		// Others.
		"nodeadm in a script":       {script + "cat > /etc/node.yaml <<EOF\nx\nEOF\nnodeadm init --config-source file:///etc/node.yaml\n", ""},
		"PowerShell's own words":    {"<powershell>\npowershell.exe -ExecutionPolicy Bypass -File 'C:\\Program Files\\Amazon\\EKS\\Start-EKSBootstrap.ps1' -EKSClusterName 'it''s' -Nope x\n</powershell>\n", `2: -Nope: Start-EKSBootstrap.ps1 takes no such parameter; known are EKSClusterName, KubeletExtraArgs, KubeProxyExtraArgs, Endpoint, APIServerEndpoint, Base64ClusterCA, DNSClusterIP, ServiceCIDR, ExcludedSnatCIDRs, ContainerRuntime|2: -EKSClusterName: "it's" is not a cluster name: up to 100 letters, digits, - and _`},
		"Windows on IPv6":           {powers + "-ServiceCIDR fd00::/108" + powersEnd, "2: -ServiceCIDR: EKS has no Windows nodes in clusters of IPv6"},
		"IPv6 without its network":  {script + "/etc/eks/bootstrap.sh c --apiserver-endpoint https://a --b64-cluster-ca YQ== \\\n --ip-family ipv6\n", "3: --ip-family: ipv6 needs --service-ipv6-cidr or --dns-cluster-ip"},
		"an Outpost without its id": {head + "  cluster: {name: a, apiServerEndpoint: 'https://a', certificateAuthority: YQ==, cidr: 10.0.0.0/16, enableOutpost: true}\n", "4: spec.cluster.id: is missing; a local cluster on an Outpost is identified by this ID"},
		"proxies":                   {head + whole + "  instance:\n    environment:\n      default: {HTTPS_PROXY: 'http://a:1', NO_PROXY: 169.254.169.254}\n      containerd: {'HTTP PROXY': x}\n", `8: spec.instance.environment.containerd.HTTP PROXY: "HTTP PROXY" is not a variable name`},
		"Bottlerocket's proxies":    {toml3 + "[settings.network]\nhttps-proxy = 'a:1'\nno-proxy = 'a'\n", "7: settings.network.no-proxy: it must be a list of text, not text"},
		"a class' field":            {class + "  amiFamily: AL2023\n  userdata: x\n  blockDeviceMapping: []\n  placementGroupSelectorTerms: []\n", "9: spec.userdata: unknown field; did you mean userData?|10: spec.blockDeviceMapping: unknown field; did you mean blockDeviceMappings?"},
		"too large within a class":  {class + "  amiFamily: AL2023\n  userData: |\n    #!/bin/sh\n    #" + strings.Repeat("x", 17000) + "\n    /etc/eks/bootstrap.sh c\n", "9: warning: spec.userData: Karpenter merges it with its own, which calls bootstrap.sh once more: leave the call out, or set amiFamily to Custom|9: spec.userData: it has 17036 bytes, and EC2 takes at most 16384"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, said(t, c.text, "")) })
	}
}

// EC2 limits the size of decoded user data, compressed or not.
func TestUserDataAboveTheLimitOfEC2(t *testing.T) {
	noise := make([]byte, 20<<10)
	source := rand.NewChaCha8([32]byte{})
	_, err := source.Read(noise)
	require.NoError(t, err)
	text := []byte(script + "/etc/eks/bootstrap.sh c\n#" + fmt.Sprintf("%x", noise) + "\n")
	packed := testkit.Gzip(text)
	require.Greater(t, len(packed), maxUserData)
	assert.Equal(t, fmt.Sprintf("it has %d bytes, and EC2 takes at most 16384; compress it with gzip", len(text)), said(t, base64.StdEncoding.EncodeToString(text), ""))
	assert.Equal(t, fmt.Sprintf("it has %d bytes, and EC2 takes at most 16384, also compressed", len(packed)), said(t, string(packed), ""))
	fits := bytes.Repeat([]byte("# fits\n"), 2000)
	assert.Empty(t, said(t, base64.StdEncoding.EncodeToString(append([]byte(script+"/etc/eks/bootstrap.sh c\n"), fits...)), ""), "the limit must not count the base64 text")
	assert.Empty(t, said(t, string(testkit.Gzip(append([]byte(script+"/etc/eks/bootstrap.sh c\n"), bytes.Repeat(fits, 4)...))), ""))
	assert.Contains(t, said(t, powers+"\n#"+strings.Repeat("x", 17000)+powersEnd, ""), "EC2 takes at most 16384; fetch a part of the script from elsewhere")
	assert.Equal(t, "error: reading user data: decompressing: the text has more than 1 MiB", said(t, string(testkit.Gzip(make([]byte, 2<<20))), ""))

	n := node()
	n.Labels = map[string]string{}
	for i := range 700 {
		n.Labels[fmt.Sprintf("example.com/label-%d", i)] = "value"
	}
	_, err = Render("al2023", "", n)
	require.ErrorContains(t, err, "checking what was written for al2023: it has ")
	require.ErrorContains(t, err, "EC2 takes at most 16384; compress it with gzip")
}

func TestOutpostClustersAreRendered(t *testing.T) {
	n := node()
	n.Cluster.Outpost = "1234abcd-12ab-34cd-56ef-1234567890ab"
	text := written(t, "al2023", "", n)
	c, _, err := nodeconfig.Parse(text)
	require.NoError(t, err)
	assert.True(t, c.Spec.Cluster.Outpost())
	assert.Equal(t, n.Cluster.Outpost, c.Spec.Cluster.ID)

	args, err := n.bootstrapArguments()
	require.NoError(t, err)
	a, err := arguments.Parse(args)
	require.NoError(t, err)
	require.NoError(t, a.Validate())
	assert.True(t, *a.Outpost)
	assert.Equal(t, n.Cluster.Outpost, a.ClusterID)
	for _, family := range []string{"al2", "ubuntu"} {
		assert.Contains(t, string(written(t, family, "", n)), n.Cluster.Outpost)
	}
	for family, want := range map[string]string{
		"windows":      "writing user data for windows: cluster.outpost: EKS has no Windows nodes on Outposts",
		"bottlerocket": "writing user data for bottlerocket: cluster.outpost: local clusters on Outposts have no Bottlerocket nodes",
	} {
		_, err := Render(family, "", n)
		assert.EqualError(t, err, want)
	}
	n.Cluster.Outpost = "a b"
	_, err = Render("al2023", "", n)
	assert.EqualError(t, err, `cluster.outpost: "a b" is not an ID of a local cluster: up to 100 letters, digits, - and _`)
}

// Values with quotes and dots are read back unchanged.
func TestRenderedValuesAreQuoted(t *testing.T) {
	n := node()
	n.KubeletArgs = []string{`--system-reserved=cpu=100m,memory='1Gi'`, `--image-gc-high-threshold="85"`}
	text := written(t, "al2", "", n)
	parts := (&checker{report: &Report{}}).parts(string(text))
	var words []string
	s, err := readShell(parts[0].Text, "bash")
	require.NoError(t, err)
	for _, w := range s.commands[1][1:] {
		words = append(words, w.text)
	}
	args, err := n.bootstrapArguments()
	require.NoError(t, err)
	assert.Equal(t, args, words)

	text = written(t, "windows", "", n)
	assert.Contains(t, string(text), `memory=''1Gi'' --image-gc-high-threshold="85" --max-pods=58'`)
	var given string
	commands, _ := powershellCommands(strings.TrimPrefix(string(text), windowsOpen))
	for _, command := range commands {
		for i, w := range command {
			if w.text == "-KubeletExtraArgs" {
				given = command[i+1].text
			}
		}
	}
	assert.Equal(t, strings.Join(n.kubeletFlags(), " ")+" --max-pods=58", given)

	n.KubeletArgs = nil
	n.Labels = map[string]string{"a.b/c": "d", "e": ""}
	text = written(t, "bottlerocket", "", n)
	var document struct {
		Settings struct {
			Kubernetes struct {
				Labels map[string]string `toml:"node-labels"`
			} `toml:"kubernetes"`
		} `toml:"settings"`
	}
	require.NoError(t, toml.Unmarshal(text, &document))
	assert.Equal(t, n.Labels, document.Settings.Kubernetes.Labels)
}

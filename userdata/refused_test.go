package userdata

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
		"another kind":            {kubelet("apiVersion: kubelet.config.k8s.io/v1\nkind: Kubelet"), `7: spec.kubelet.config.apiVersion: "kubelet.config.k8s.io/v1" is not kubelet.config.k8s.io/v1beta1|8: spec.kubelet.config.kind: "Kubelet" is not KubeletConfiguration`},
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

package scrub

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// The placeholders in bootstrap.sh's templates.
const (
	endpointPlaceholder = "MASTER_ENDPOINT"
	clusterPlaceholder  = "CLUSTER_NAME"
	regionPlaceholder   = "AWS_REGION"
	sandboxPlaceholder  = "SANDBOX_IMAGE"
)

var (
	serverLine  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\s*server:\s*)(["']?)(.*?)(["']?)(\s*)$`) })
	listItem    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\s*-\s*)(["']?)(.*?)(["']?)(\s*)$`) })
	sandboxLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(\s*(?:sandbox_image|sandbox)\s*=\s*)(["'])(.*?)(["'])(\s*(?:#.*)?)$`)
	})

	// pauseImage matches EKS's pause image in the registry of any partition.
	pauseImage = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\d{12}\.dkr[.-]ecr(-fips)?\.[a-z0-9-]+\.[a-z0-9.-]+/eks/pause(:|@)`)
	})
	// harmlessPause are pause images that name no account and no region.
	harmlessPause = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(registry\.k8s\.io|k8s\.gcr\.io|public\.ecr\.aws|localhost)/`)
	})
	clusterName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$`) })
	regionName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-\d+$`) })
)

// argumentPlaceholders has the placeholder of the value after each argument of
// the token command: -i and --cluster-id of aws-iam-authenticator,
// --cluster-name of the AWS CLI, and --region of both.
var argumentPlaceholders = map[string]struct {
	placeholder string
	valid       func() *regexp.Regexp
}{
	"-i":             {clusterPlaceholder, clusterName},
	"--cluster-id":   {clusterPlaceholder, clusterName},
	"--cluster-name": {clusterPlaceholder, clusterName},
	"--region":       {regionPlaceholder, regionName},
}

// reverseKubeconfig restores MASTER_ENDPOINT, CLUSTER_NAME and AWS_REGION. It
// works line by line, so that comments, order and quoting stay.
func reverseKubeconfig(current, _ []byte) (reversal, error) {
	var back reversal
	lines := strings.Split(string(current), "\n")
	seen := map[string]bool{}
	argument := ""
	for i, line := range lines {
		if m := serverLine().FindStringSubmatch(line); m != nil {
			seen[endpointPlaceholder] = true
			switch {
			case m[3] == endpointPlaceholder:
			case strings.HasPrefix(m[3], "https://"):
				lines[i] = m[1] + m[2] + endpointPlaceholder + m[4] + m[5]
			default:
				back.Unknown = append(back.Unknown, fmt.Sprintf("line %d: the server", i+1))
			}
		}
		m := listItem().FindStringSubmatch(line)
		if m == nil {
			argument = ""
			continue
		}
		if p, ok := argumentPlaceholders[argument]; ok {
			seen[p.placeholder] = true
			switch {
			case m[3] == p.placeholder:
			case p.valid().MatchString(m[3]):
				lines[i] = m[1] + m[2] + p.placeholder + m[4] + m[5]
			default:
				back.Unknown = append(back.Unknown, fmt.Sprintf("line %d: the value of %s", i+1, argument))
			}
		}
		argument = m[3]
	}
	var missing []string
	for _, p := range []string{endpointPlaceholder, clusterPlaceholder, regionPlaceholder} {
		if !seen[p] {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		return reversal{}, fmt.Errorf("the file has no place for %s", strings.Join(missing, ", "))
	}
	back.Content = []byte(strings.Join(lines, "\n"))
	return back, nil
}

// reverseContainerdConfig replaces the EKS pause image of a region with
// SANDBOX_IMAGE. A template without this placeholder stays as it is.
func reverseContainerdConfig(current, template []byte) (reversal, error) {
	var back reversal
	lines := strings.Split(string(current), "\n")
	if !strings.Contains(string(template), sandboxPlaceholder) {
		back.Content = current
		return back, nil
	}
	found := false
	for i, line := range lines {
		m := sandboxLine().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		found = true
		switch {
		case m[3] == sandboxPlaceholder, harmlessPause().MatchString(m[3]):
		case pauseImage().MatchString(m[3]):
			lines[i] = m[1] + m[2] + sandboxPlaceholder + m[4] + m[5]
		default:
			back.Unknown = append(back.Unknown, fmt.Sprintf("line %d: the pause image", i+1))
		}
	}
	if !found {
		return reversal{}, errors.New("the file names no sandbox image")
	}
	back.Content = []byte(strings.Join(lines, "\n"))
	return back, nil
}

// bootstrapKeys are the keys of kubelet-config.json that bootstrap.sh sets. A
// user set every other key that differs from the template.
var bootstrapKeys = []string{
	"clusterDNS", "evictionHard", "kubeReserved", "maxPods", "providerID", "systemReservedCgroup",
	"kubeReservedCgroup", "kubeAPIQPS", "kubeAPIBurst", "cgroupDriver", "cgroupRoot",
}

// First boot sets resolvConf, to this value only, where systemd-resolved's stub
// answers on the machine. Every other value is a user's.
const (
	resolvConfKey   = "resolvConf"
	resolvConfValue = `"/run/systemd/resolve/resolv.conf"`
)

// reverseKubeletConfig restores the template's values of the keys that
// bootstrap.sh sets, and removes keys that the template does not have. The
// order of keys and a user's keys stay.
func reverseKubeletConfig(current, template []byte) (reversal, error) {
	have, err := parseObject(current)
	if err != nil {
		return reversal{}, fmt.Errorf("the file is not a JSON object: %w", err)
	}
	want, err := parseObject(template)
	if err != nil {
		return reversal{}, fmt.Errorf("the template is not a JSON object: %w", err)
	}
	changed := false
	if _, ok := want.get(resolvConfKey); !ok {
		if value, _ := have.get(resolvConfKey); string(value) == resolvConfValue {
			changed = have.remove(resolvConfKey)
		}
	}
	for _, key := range bootstrapKeys {
		value, ok := want.get(key)
		switch {
		case !ok:
			changed = have.remove(key) || changed
		default:
			changed = have.set(key, value) || changed
		}
	}
	if !changed {
		return reversal{Content: slices.Clone(current)}, nil
	}
	text, err := have.text()
	return reversal{Content: text}, err
}

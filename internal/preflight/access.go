package preflight

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// configMap is the authentication mode in which aws-auth alone decides.
const configMap = "CONFIG_MAP"

// printAuth prints aws-auth for commands that read it.
const printAuth = "kubectl get configmap aws-auth -n kube-system -o yaml | "

// windows says whether the node is one of Windows.
func (f *facts) windows() bool { return f.image.value.Platform == "windows" }

func (f *facts) entryType() string {
	if f.windows() {
		return "EC2_WINDOWS"
	}
	return "EC2_LINUX"
}

// entryUsers says who loses access when an access entry of a type goes.
func entryUsers(kind string) string {
	known := map[string]string{
		"EC2":            "EKS Auto Mode's nodes join by it",
		"EC2_LINUX":      "Linux nodes join by it",
		"EC2_WINDOWS":    "Windows nodes join by it",
		"FARGATE_LINUX":  "Fargate profiles run pods by it",
		"HYBRID_LINUX":   "hybrid nodes outside AWS join by it",
		"HYPERPOD_LINUX": "the nodes of SageMaker HyperPod join by it",
		"STANDARD":       "people or programs sign in by it",
	}
	if users := known[kind]; users != "" {
		return users
	}
	return "somebody may need it"
}

func checkAccess(f *facts) result {
	role, not := f.role()
	switch {
	case not != nil:
		return *not
	case f.cluster.err != nil:
		return f.unseen(f.cluster.err)
	case f.entry.err != nil:
		return f.unseen(f.entry.err)
	}
	mode, kind := f.cluster.value.AuthenticationMode, f.entry.value.Type
	create := fmt.Sprintf("aws eks create-access-entry --cluster-name %s --principal-arn %s --type %s", f.target.Cluster, role.ARN, f.entryType())
	switch {
	case kind == f.entryType():
		return good("by the access entry of the type %s", kind)
	case kind != "":
		return bad(newRole, "the access entry of %s is of the type %s, and must be %s: %s, so it stays, and these nodes need a role of their own",
			role.ARN, kind, f.entryType(), entryUsers(kind))
	case mode == "API":
		return bad(create, "%s has no access entry, and the cluster looks at nothing else", role.ARN)
	case f.target.AWSAuth == nil && mode == configMap:
		return result{Unknown, "the authentication mode is CONFIG_MAP: aws-auth decides, and only the Kubernetes API tells it", printAuth + f.target.command("--aws-auth -")}
	case f.target.AWSAuth == nil:
		return result{Unknown, fmt.Sprintf("%s has no access entry: aws-auth decides, and only the Kubernetes API tells it", role.ARN),
			printAuth + f.target.command("--aws-auth -")}
	}
	lines, err := mapRoles(f.target.AWSAuth)
	if err != nil {
		return f.unseen(err)
	}
	if !slices.ContainsFunc(lines, func(l mappedRole) bool { return strings.EqualFold(l.ARN, pathless(role.ARN)) }) {
		return bad(f.merge(role.ARN), "aws-auth has no line for %s", pathless(role.ARN))
	}
	return good("by aws-auth")
}

// merge is the command that puts a role into aws-auth; what is there stays.
func (f *facts) merge(role string) string {
	command := fmt.Sprintf("eksnode manifests --cluster %s --role %s --only aws-auth --aws-auth -", f.target.Cluster, role)
	if f.windows() {
		command += " --windows"
	}
	return printAuth + command + " | kubectl apply -f -"
}

// mappedRole is a line of aws-auth's mapRoles.
type mappedRole struct {
	ARN      string   `json:"rolearn"`
	Username string   `json:"username"`
	Groups   []string `json:"groups"`
}

// mapRoles reads the ConfigMap aws-auth.
func mapRoles(text []byte) ([]mappedRole, error) {
	var m struct {
		Kind string            `json:"kind"`
		Data map[string]string `json:"data"`
	}
	if err := yaml.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("reading aws-auth: %w", err)
	}
	if m.Kind != "ConfigMap" {
		return nil, fmt.Errorf("reading aws-auth: it is no ConfigMap; `kubectl get configmap aws-auth -n kube-system -o yaml` prints it")
	}
	var lines []mappedRole
	if err := yaml.Unmarshal([]byte(m.Data["mapRoles"]), &lines); err != nil {
		return nil, fmt.Errorf("reading mapRoles of aws-auth: %w", err)
	}
	return lines, nil
}

func checkAWSAuth(f *facts) result {
	role, not := f.role()
	switch {
	case f.cluster.err != nil:
		return f.unseen(f.cluster.err)
	case f.cluster.value.AuthenticationMode == "API":
		return good("the cluster does not look at it")
	case not != nil:
		return *not
	case f.entry.err == nil && f.entry.value.Type == f.entryType():
		return good("not needed: the access entry lets the role in, and comes first")
	case f.target.AWSAuth == nil && f.entry.err != nil:
		return f.unseen(f.entry.err)
	case f.target.AWSAuth == nil:
		return result{Unknown, "it was not handed in; only the Kubernetes API tells it", printAuth + f.target.command("--aws-auth -")}
	}
	lines, err := mapRoles(f.target.AWSAuth)
	if err != nil {
		return f.unseen(err)
	}
	for _, l := range slices.Backward(lines) { // the authenticator takes the last
		if strings.EqualFold(l.ARN, pathless(role.ARN)) {
			return f.line(l, role.ARN)
		}
	}
	for _, l := range lines {
		switch {
		case strings.Contains(l.ARN, ":role/") && strings.HasSuffix(l.ARN, "/"+role.Name):
			return bad(f.merge(role.ARN), "%s has a path, which the authenticator does not see: write it without", l.ARN)
		case strings.Contains(l.ARN, ":instance-profile/"):
			return bad(f.merge(role.ARN), "%s is an instance profile; the line needs the role's ARN", l.ARN)
		}
	}
	return bad(f.merge(role.ARN), "it has no line for %s", pathless(role.ARN))
}

// line checks the line of the node's role.
func (f *facts) line(l mappedRole, role string) result {
	if l.Username != "system:node:{{EC2PrivateDNSName}}" {
		return bad("kubectl edit configmap aws-auth -n kube-system",
			"the username of %s is %q, and must be system:node:{{EC2PrivateDNSName}}: give these nodes a role of their own if somebody uses that", l.ARN, l.Username)
	}
	groups := []string{"system:bootstrappers", "system:nodes"}
	if f.windows() {
		groups = append(groups, "eks:kube-proxy-windows")
	}
	for _, g := range groups {
		if !slices.Contains(l.Groups, g) {
			return bad(f.merge(role), "%s is not in the group %s", l.ARN, g)
		}
	}
	return good("%s is a node", l.ARN)
}

// pathless is a role's ARN as the authenticator compares it.
func pathless(arn string) string {
	before, path, found := strings.Cut(arn, ":role/")
	if !found {
		return arn
	}
	return before + ":role/" + path[strings.LastIndex(path, "/")+1:]
}

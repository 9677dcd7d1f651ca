package preflight

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// configMap is the authentication mode in which only aws-auth decides.
const configMap = "CONFIG_MAP"

// printAuth prints aws-auth, for a command that reads it.
const printAuth = "kubectl get configmap aws-auth -n kube-system -o yaml | "

// windows says whether the nodes run Windows.
func (f *facts) windows() bool {
	class := f.target.NodeClass
	return f.image.value.Platform == "windows" || familyOf(f.group.value.AMIType) == "windows" ||
		class != nil && strings.HasPrefix(strings.ToLower(class.AMIFamily+class.alias()), "windows")
}

// withAuth is the command that passes aws-auth to this preflight.
func (f *facts) withAuth() string { return printAuth + f.target.command("--aws-auth -") }

func (f *facts) entryType() string {
	if f.windows() {
		return "EC2_WINDOWS"
	}
	return "EC2_LINUX"
}

// entryUsers says which nodes or users need an access entry of a type.
func entryUsers(kind string) string {
	known := map[string]string{
		"EC2":            "EKS Auto Mode's nodes join with it",
		"EC2_LINUX":      "Linux nodes join with it",
		"EC2_WINDOWS":    "Windows nodes join with it",
		"FARGATE_LINUX":  "Fargate profiles run pods with it",
		"HYBRID_LINUX":   "hybrid nodes outside AWS join with it",
		"HYPERPOD_LINUX": "the nodes of SageMaker HyperPod join with it",
		"STANDARD":       "people or programs sign in with it",
	}
	if users := known[kind]; users != "" {
		return users
	}
	return "another user may need it"
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
		return good("by the access entry of type %s", kind)
	case kind != "":
		return bad(f.newRole(), "the access entry of %s has the type %s, but must have %s: %s, so keep the entry and give these nodes their own role",
			role.ARN, kind, f.entryType(), entryUsers(kind))
	case mode == "API":
		return bad(create, "%s has no access entry, and the cluster uses nothing else", role.ARN)
	case f.target.AWSAuth == nil && f.managed():
		return maybe(f.withAuth(), "EKS let the role %s in when it made the node group; only the Kubernetes API can show whether aws-auth still does", role.ARN)
	case f.target.AWSAuth == nil && mode == configMap:
		return f.unread("the authentication mode is CONFIG_MAP: aws-auth decides, and only the Kubernetes API can read aws-auth")
	case f.target.AWSAuth == nil:
		return f.unread(role.ARN + " has no access entry: aws-auth decides, and only the Kubernetes API can read aws-auth")
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

// merge is the command that adds a role to aws-auth and keeps the other lines.
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

// mapRoles reads the roles of the ConfigMap aws-auth.
func mapRoles(text []byte) ([]mappedRole, error) {
	var m struct {
		Kind string            `json:"kind"`
		Data map[string]string `json:"data"`
	}
	if err := yaml.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("reading aws-auth: %w", err)
	}
	if m.Kind != "ConfigMap" {
		return nil, fmt.Errorf("reading aws-auth: the text is no ConfigMap; `kubectl get configmap aws-auth -n kube-system -o yaml` prints the ConfigMap")
	}
	var lines []mappedRole
	if err := yaml.Unmarshal([]byte(m.Data["mapRoles"]), &lines); err != nil {
		return nil, fmt.Errorf("reading mapRoles of aws-auth: %w", err)
	}
	return lines, nil
}

// unread is the result when aws-auth decides and was not passed.
func (f *facts) unread(evidence string) result {
	return result{verdict: Unknown, evidence: evidence, remedy: f.withAuth(), cause: "aws-auth"}
}

func checkAWSAuth(f *facts) result {
	role, not := f.role()
	switch {
	case f.cluster.err != nil:
		return f.unseen(f.cluster.err)
	case f.cluster.value.AuthenticationMode == "API":
		return good("the cluster does not use aws-auth")
	case not != nil:
		return *not
	case f.entry.err == nil && f.entry.value.Type == f.entryType():
		return good("not needed: the access entry lets the role in and has precedence")
	case f.target.AWSAuth == nil && f.entry.err != nil:
		return f.unseen(f.entry.err)
	case f.target.AWSAuth == nil && f.managed():
		return maybe(f.withAuth(), "aws-auth was not passed; EKS added the role's line when it made the node group")
	case f.target.AWSAuth == nil:
		return f.unread("aws-auth was not passed; only the Kubernetes API can read aws-auth")
	}
	lines, err := mapRoles(f.target.AWSAuth)
	if err != nil {
		return f.unseen(err)
	}
	for _, l := range slices.Backward(lines) { // the authenticator uses the last match
		if strings.EqualFold(l.ARN, pathless(role.ARN)) {
			return f.line(l, role.ARN)
		}
	}
	for _, l := range lines {
		switch {
		case strings.Contains(l.ARN, ":role/") && strings.HasSuffix(l.ARN, "/"+role.Name):
			return bad(f.merge(role.ARN), "%s has a path, which the authenticator ignores: write the ARN without the path", l.ARN)
		case strings.Contains(l.ARN, ":instance-profile/"):
			return bad(f.merge(role.ARN), "%s is an instance profile; the line needs the role's ARN", l.ARN)
		}
	}
	return bad(f.merge(role.ARN), "aws-auth has no line for %s", pathless(role.ARN))
}

// line checks the node role's line.
func (f *facts) line(l mappedRole, role string) result {
	if l.Username != "system:node:{{EC2PrivateDNSName}}" {
		return bad("kubectl edit configmap aws-auth -n kube-system",
			"the username of %s is %q, but must be system:node:{{EC2PrivateDNSName}}: if that username is in use, give these nodes their own role", l.ARN, l.Username)
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

// pathless is a role's ARN without its path, as the authenticator compares it.
func pathless(arn string) string {
	before, path, found := strings.Cut(arn, ":role/")
	if !found {
		return arn
	}
	return before + ":role/" + path[strings.LastIndex(path, "/")+1:]
}

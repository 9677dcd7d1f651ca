package clustersetup

func (n Node) entryType() string {
	if n.Windows {
		return "EC2_WINDOWS"
	}
	return "EC2_LINUX"
}

// The rules for types, accounts and paths:
// https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
func writeAccessEntry(n Node) (string, error) {
	kind, there := n.entryType(), n.Found.Entry
	var s script
	create := func() {
		s.run("aws", "eks", "create-access-entry", "--cluster-name", n.Cluster, "--principal-arn", n.Role, "--type", kind)
	}
	switch {
	case n.Found.AuthenticationMode == configMap:
		return "", blocked("the authentication mode of the cluster %s is CONFIG_MAP, which ignores access entries: use aws-auth, "+
			"or first `aws eks update-cluster-config --name %s --access-config authenticationMode=API_AND_CONFIG_MAP`, which cannot be undone", n.Cluster, n.Cluster)
	case n.foreign() && n.Found.AuthenticationMode == "API":
		return "", blocked("the role %s is in another account than the cluster %s, and EKS accepts no access entry for such nodes: use a role in the account %s", n.Role, n.Cluster, n.Found.Account)
	case n.foreign():
		return "", blocked("the role %s is in another account than the cluster %s, and EKS accepts no access entry for such nodes: use aws-auth, or a role in the account %s",
			n.Role, n.Cluster, n.Found.Account)
	case there == nil || there.Type == "":
		create()
	case there.Type != kind:
		return "", blocked("the access entry of %s has the type %s, but these nodes need %s: EKS cannot change a type, and others may use the entry, so give these nodes their own role",
			n.Role, there.Type, kind)
	case n.Found.Role != nil && !n.Found.Role.Exists:
		// EKS keeps the ID of the deleted role, so the entry lets no new role in.
		s.comment("The role does not exist. Its access entry is for a deleted role and would not let a new role of that name in.")
		s.run("aws", "eks", "delete-access-entry", "--cluster-name", n.Cluster, "--principal-arn", n.Role)
		create()
	case there.Username != "" && there.Username != username:
		return "", blocked("the access entry of %s has the username %q, but nodes need %s: others may use the entry, so give these nodes their own role", n.Role, there.Username, username)
	}
	return s.done("the access entry of %s has the type %s.", n.Role, kind), nil
}

// configMap is the authentication mode in which only aws-auth decides.
const configMap = "CONFIG_MAP"

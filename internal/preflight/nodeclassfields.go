package preflight

// field is what the API server accepts for a field of an EC2NodeClass.
type field struct {
	// kind is text, truth, number, object, list, map (of texts) or any.
	kind string
	// of are the fields of an object, or of a list's objects.
	of map[string]field
	// values are the only values. pattern is a regular expression that a text must
	// match. Numbers are between least and most, where most is set.
	values      []string
	pattern     string
	least, most int
	// filled refuses a map with empty values. Empty keys are refused in every map.
	filled bool
	// only is the version that has the field: v1 or v1beta1. Empty means both.
	only string
}

// classFields are the fields of spec, from Karpenter's
// karpenter.k8s.aws_ec2nodeclasses.yaml of v1.14 and v1.0.
func classFields() map[string]field {
	text, truth, number := field{kind: "text"}, field{kind: "truth"}, field{kind: "number"}
	tags := field{kind: "map", filled: true}
	onOff := field{kind: "text", values: []string{"enabled", "disabled"}}
	return map[string]field{
		"subnetSelectorTerms": {kind: "list", of: map[string]field{"tags": tags, "id": {kind: "text", pattern: `^subnet-[0-9a-z]+$`}}},
		"securityGroupSelectorTerms": {kind: "list", of: map[string]field{
			"tags": tags, "id": {kind: "text", pattern: `^sg-[0-9a-z]+$`}, "name": text,
		}},
		"capacityReservationSelectorTerms": {kind: "list", only: "v1", of: map[string]field{
			"tags": tags, "id": {kind: "text", pattern: `^cr-[0-9a-z]+$`}, "ownerID": {kind: "text", pattern: `^[0-9]{12}$`},
			"instanceMatchCriteria": {kind: "text", values: []string{"open", "targeted"}},
		}},
		"placementGroupSelector":   {kind: "object", only: "v1", of: map[string]field{"name": text, "id": {kind: "text", pattern: `^pg-[0-9a-z]+$`}}},
		"associatePublicIPAddress": truth,
		"ipPrefixCount":            {kind: "number", only: "v1", most: 1 << 20},
		"amiSelectorTerms": {kind: "list", of: map[string]field{
			"tags": tags, "id": {kind: "text", pattern: `^ami-[0-9a-z]+$`}, "name": text, "owner": text,
			"alias":        {kind: "text", only: "v1", pattern: `^(al2|al2023|bottlerocket|windows2019|windows2022|windows2025)@.+$`},
			"ssmParameter": {kind: "text", only: "v1"},
		}},
		"amiFamily":       {kind: "text", values: []string{"AL2", "AL2023", "Bottlerocket", "Custom", "Ubuntu", "Windows2019", "Windows2022", "Windows2025"}},
		"userData":        text,
		"role":            {kind: "text", pattern: `^[\w+=,.@/:-]+$`},
		"instanceProfile": {kind: "text", pattern: `^[\w+=,.@-]+$`},
		"tags":            {kind: "map"},
		"kubelet":         {kind: "any", only: "v1"}, // the package userdata checks its fields
		"blockDeviceMappings": {kind: "list", of: map[string]field{
			"deviceName": text, "rootVolume": truth,
			"ebs": {kind: "object", of: map[string]field{
				"deleteOnTermination": truth, "encrypted": truth, "iops": number, "kmsKeyID": text, "snapshotID": text, "throughput": number,
				"volumeInitializationRate": {kind: "number", only: "v1", least: 100, most: 300},
				"volumeSize":               {kind: "text", pattern: `^[1-9][0-9]{0,4}(Gi|G|Ti|T)$`},
				"volumeType":               {kind: "text", values: []string{"standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"}},
			}},
		}},
		"instanceStorePolicy": {kind: "text", values: []string{"RAID0"}},
		"networkInterfaces": {kind: "list", only: "v1", of: map[string]field{
			"networkCardIndex": number, "deviceIndex": number, "interfaceType": {kind: "text", values: []string{"interface", "efa-only"}},
		}},
		"detailedMonitoring": truth,
		"metadataOptions": {kind: "object", of: map[string]field{
			"httpEndpoint": onOff, "httpProtocolIPv6": onOff, "httpPutResponseHopLimit": {kind: "number", least: 1, most: 64},
			"httpTokens": {kind: "text", values: []string{"required", "optional"}},
		}},
		"connectionTracking": {kind: "object", only: "v1", of: map[string]field{
			"tcpEstablishedTimeout": {kind: "number", least: 60, most: 432000}, "udpStreamTimeout": {kind: "number", least: 60, most: 180},
			"udpTimeout": {kind: "number", least: 30, most: 60},
		}},
		"context":    text,
		"cpuOptions": {kind: "object", only: "v1", of: map[string]field{"nestedVirtualization": onOff}},
	}
}

// reservedTags are the tags that Karpenter sets itself. A class with one of them
// is refused.
func reservedTags() []string {
	return []string{"eks:eks-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.sh/managed-by", "karpenter.k8s.aws/ec2nodeclass"}
}

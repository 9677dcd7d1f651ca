variable "kubernetes_versions" {
  description = "Kubelet versions. Each distribution and processor gets an AMI for each version"
  type        = list(string)
  default     = ["1.36.3"]

  validation {
    condition     = length(var.kubernetes_versions) > 0 && alltrue([for v in var.kubernetes_versions : can(regex("^1\\.[0-9]+\\.[0-9]+$", v))])
    error_message = "Must be versions in full and without \"v\", such as [\"1.36.3\", \"1.35.4\"]."
  }
  validation {
    condition     = length(distinct([for v in var.kubernetes_versions : regex_replace(v, "\\.[0-9]+$", "")])) == length(var.kubernetes_versions)
    error_message = "Must have one version of each minor: two would be published under one name."
  }
}

variable "distros" {
  description = "Distributions, by the name that their AMIs get. In \"name\", {processor} is the publisher's name of the processor"
  type = map(object({
    owner        = string # account of the publisher; anybody may publish under any name
    name         = string
    processors   = map(string) # EC2's name of the processor, and the publisher's
    root_device  = string      # RootDeviceName of `aws ec2 describe-images`
    ssh_username = string
  }))
  default = {
    # Amazon; `aws ssm get-parameters-by-path --path /aws/service/ami-amazon-linux-latest` lists the newest.
    al2023 = {
      owner        = "137112412989"
      name         = "al2023-ami-minimal-2023.*-kernel-6.12-{processor}"
      processors   = { x86_64 = "x86_64", arm64 = "arm64" }
      root_device  = "/dev/xvda"
      ssh_username = "ec2-user"
    }
    # The Arch Linux project publishes no AMIs. Its wiki links to these, for x86_64
    # only. Check owner and device before you rely on them:
    # https://wiki.archlinux.org/title/Arch_Linux_AMIs_for_Amazon_Web_Services
    arch = {
      owner        = "647457786197"
      name         = "arch-linux-std-hvm-*.x86_64-ebs"
      processors   = { x86_64 = "x86_64" }
      root_device  = "/dev/xvda"
      ssh_username = "arch"
    }
    # The Debian cloud team: https://wiki.debian.org/Cloud/AmazonEC2Image
    debian13 = {
      owner        = "136693071363"
      name         = "debian-13-{processor}-*"
      processors   = { x86_64 = "amd64", arm64 = "arm64" }
      root_device  = "/dev/xvda"
      ssh_username = "admin"
    }
    # Canonical; in AWS China its account is 837727238323.
    # https://documentation.ubuntu.com/aws/aws-how-to/instances/find-ubuntu-images/
    ubuntu2204 = {
      owner        = "099720109477"
      name         = "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-{processor}-server-*"
      processors   = { x86_64 = "amd64", arm64 = "arm64" }
      root_device  = "/dev/sda1"
      ssh_username = "ubuntu"
    }
    ubuntu2404 = {
      owner        = "099720109477"
      name         = "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-{processor}-server-*"
      processors   = { x86_64 = "amd64", arm64 = "arm64" }
      root_device  = "/dev/sda1"
      ssh_username = "ubuntu"
    }
  }

  validation {
    condition     = alltrue([for name, d in var.distros : can(regex("^[a-z0-9]+$", name))])
    error_message = "Must have names of small letters and digits, such as \"debian13\"."
  }
  validation {
    condition     = alltrue([for d in values(var.distros) : can(regex("^[0-9]{12}$", d.owner))])
    error_message = "Must have accounts of 12 digits as owners; words such as \"amazon\" mean several accounts."
  }
  validation {
    condition     = alltrue([for d in values(var.distros) : length(d.processors) > 0 && alltrue([for p in keys(d.processors) : contains(["x86_64", "arm64"], p)])])
    error_message = "Must have the processors x86_64, arm64 or both."
  }
  validation {
    condition     = alltrue([for d in values(var.distros) : can(regex("^/dev/[a-z0-9]+$", d.root_device))])
    error_message = "Must have devices as root_device, such as \"/dev/xvda\"."
  }
}

variable "region" {
  description = "AWS region to build in"
  type        = string
  default     = "us-east-1"

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "Must be a region's code, such as \"eu-central-1\"."
  }
}

variable "copies" {
  description = "Regions to copy AMIs to, each with the KMS key of the copy: an ID, an ARN or an alias. An empty key means the region's default for EBS. Set a key for every region or for none"
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for r in keys(var.copies) : can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", r))])
    error_message = "Must be keys by regions' codes, such as { \"eu-north-1\" = \"alias/images\" }."
  }
  validation {
    condition     = contains([0, length(var.copies)], length(compact(values(var.copies))))
    error_message = "Must have a key for every region or for none."
  }
}

variable "name" {
  description = "Prefix of AMI names. Distribution, processor, Kubernetes version and time follow"
  type        = string
  default     = "eksnode"

  validation {
    condition     = can(regex("^[A-Za-z0-9._-]{1,64}$", var.name))
    error_message = "Must be 1 to 64 letters, digits, \".\", \"_\" and \"-\"."
  }
}

variable "instance_types" {
  description = "Instance type to build on, by processor"
  type        = map(string)
  default     = { x86_64 = "m6i.large", arm64 = "m7g.large" }

  validation {
    condition     = alltrue([for p in ["x86_64", "arm64"] : can(regex("^[a-z][a-z0-9-]*\\.[a-z0-9-]+$", var.instance_types[p]))])
    error_message = "Must be an instance type for each of x86_64 and arm64, such as \"m6i.large\"."
  }
}

variable "subnet_id" {
  description = "Subnet to build in (default: one of the default VPC)"
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^(|subnet-[0-9a-f]{8,17})$", var.subnet_id))
    error_message = "Must be empty or a subnet's ID, such as \"subnet-0123456789abcdef0\"."
  }
}

variable "instance_profile" {
  description = "Instance profile of the builder machine. Only ssh_interface = \"session_manager\" needs one"
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^[A-Za-z0-9+=,.@_-]{0,128}$", var.instance_profile))
    error_message = "Must be empty or an instance profile's name, not its ARN."
  }
}

variable "ssh_interface" {
  description = "How Packer connects: \"public_ip\", \"private_ip\" or \"session_manager\" (default: the public address, if there is one)"
  type        = string
  default     = ""

  validation {
    condition     = contains(["", "public_ip", "private_ip", "session_manager"], var.ssh_interface)
    error_message = "Must be empty, \"public_ip\", \"private_ip\" or \"session_manager\"."
  }
}

variable "ssh_source_cidrs" {
  description = "Address ranges that may connect to the builder machine over SSH. Use your own address"
  type        = list(string)
  default     = ["0.0.0.0/0"]

  validation {
    condition     = length(var.ssh_source_cidrs) > 0
    error_message = "Must name at least one range, such as \"192.0.2.7/32\"."
  }
}

variable "volume_size" {
  description = "Size of the root volume in GiB. Nodes may have a larger one, not a smaller one"
  type        = number
  default     = 8

  validation {
    condition     = var.volume_size >= 4 && var.volume_size <= 16384 && floor(var.volume_size) == var.volume_size
    error_message = "Must be a whole number from 4 to 16384."
  }
}

variable "kms_key_id" {
  description = "KMS key of the root volume and the AMIs: an ID, an ARN or an alias such as \"alias/images\" (default: the region's default for EBS). To share AMIs with other accounts, use a key of your own"
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^(|alias/.+|arn:[a-z-]+:kms:.+|[0-9a-f-]{36}|mrk-[0-9a-f]{32})$", var.kms_key_id))
    error_message = "Must be empty, a key's ID or ARN, or an alias, such as \"alias/images\"."
  }
}

variable "deprecate_after_days" {
  description = "Days until EC2 marks the AMIs as deprecated. Deprecated AMIs still work, but other accounts no longer see them in lists"
  type        = number
  default     = 180

  validation {
    condition     = var.deprecate_after_days >= 1 && var.deprecate_after_days <= 3650 && floor(var.deprecate_after_days) == var.deprecate_after_days
    error_message = "Must be a whole number of days from 1 to 3650."
  }
}

variable "publish_under" {
  description = "SSM path for the AMIs' ids: \"/eksnode\" means parameters such as /eksnode/debian13/1.36/arm64. Empty publishes nothing"
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^(|(/[A-Za-z0-9_.-]+)+)$", var.publish_under))
    error_message = "Must be empty or a path such as \"/eksnode\", without \"/\" at the end."
  }
}

variable "tags" {
  description = "Tags for AMIs, snapshots and everything that exists during the build"
  type        = map(string)
  default     = {}
}

variable "versions" {
  description = "Versions of single assets, by Kubernetes version (default: those that go with the kubelet)"
  type        = map(map(string))
  default     = {}
}

variable "checksums" {
  description = "SHA-256 that single assets must have, by Kubernetes version and processor: { \"1.36.3/x86_64\" = { kubelet = \"…\" } }"
  type        = map(map(string))
  default     = {}
}

variable "source_url" {
  description = "Mirror of the upstream sites (default: the sites themselves)"
  type        = string
  default     = ""
}

variable "allow_http" {
  description = "Accept a mirror with http:// without a lock file or checksums"
  type        = bool
  default     = false
}

variable "reports" {
  description = "Folder for the reports"
  type        = string
  default     = "reports"
}

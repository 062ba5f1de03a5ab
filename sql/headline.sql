SELECT {{numbers}}
FROM {{counted}}
